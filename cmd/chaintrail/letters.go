package main

import (
	"context"
	"errors"

	"github.com/chaintrail/chaintrail/internal/detect"
	"github.com/chaintrail/chaintrail/sinks"
)

// redactedLetters takes secrets out of dead letters before they are kept: a message that cannot be
// read was not redacted by whoever wrote it, as far as anyone can tell.
type redactedLetters struct {
	next     sinks.DeadLetters
	redactor *detect.Detector
}

// Put implements sinks.DeadLetters.
func (r redactedLetters) Put(ctx context.Context, letter sinks.Letter) error {
	letter.Data = r.redactor.Redact(letter.Data)
	if letter.Err != nil {
		letter.Err = errors.New(r.redactor.RedactString(letter.Err.Error()))
	}
	return r.next.Put(ctx, letter)
}
