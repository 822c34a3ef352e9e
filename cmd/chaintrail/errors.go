package main

// hinter is an error that knows the operator's way out.
type hinter interface {
	error
	Hint() string
}

// hintError adds a way out to an error.
type hintError struct {
	error
	hint string
}

func (e *hintError) Unwrap() error { return e.error }

// Hint implements hinter.
func (e *hintError) Hint() string { return e.hint }

func withHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hintError{error: err, hint: hint}
}

// usageError is a fault of the command line or of the configuration: exit code 2.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// tamperError is evidence that what is stored was changed or lost: exit code 3.
type tamperError struct{ error }

func (e *tamperError) Unwrap() error { return e.error }
