package chain

import (
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// readValidation judges a verdict. A verdict of false blocks when its severity is error, missing or unknown, or when
// any message has severity error; also when the rest of it is malformed, because the interceptor did say no.
func (a *Answer) readValidation(f *resultFields) {
	flat := f.valid
	if f.validation.Kind() == '{' {
		for member := range jsonx.Members(f.validation) {
			f.setNested(member)
		}
		if flat == nil {
			flat = f.nestedValid
		}
	}
	valid, ok := boolOf(flat)
	if !ok {
		a.malformed("valid is neither true nor false")
		return
	}
	if nested, ok := boolOf(f.nestedValid); !isNull(f.nestedValid) && (!ok || nested != valid) {
		a.malformed("it says valid twice, and differently")
		valid = false
	}
	a.Valid = new(valid)
	severity := a.readSeverity(f.severity, valid)
	if !valid {
		a.Severity = severity
	}
	a.countFindings(f.messages, severity)
	if valid {
		return
	}
	if a.Errors > 0 || a.State == schemas.StateMalformed {
		a.Severity = schemas.SeverityError
	}
	a.Blocks = a.Severity == schemas.SeverityError
}

// readSeverity returns what a severity counts as.
func (a *Answer) readSeverity(v jsonx.Value, valid bool) schemas.Severity {
	if isNull(v) {
		if valid {
			return schemas.SeverityInfo
		}
		a.malformed("valid is false without a severity")
		return schemas.SeverityError
	}
	text, ok := jsonx.StringOf(v)
	if !ok {
		a.malformed("severity is not a string")
		return schemas.SeverityError
	}
	return severityOf(text)
}

// severityOf takes an unknown severity for the worst.
func severityOf(text string) schemas.Severity {
	switch s := schemas.Severity(text); s {
	case schemas.SeverityInfo, schemas.SeverityWarn:
		return s
	default:
		return schemas.SeverityError
	}
}

// countFindings counts messages by severity; a message without one has that of the verdict, and a verdict that does
// not pass and says nothing counts as one finding.
func (a *Answer) countFindings(messages jsonx.Value, severity schemas.Severity) {
	if !isNull(messages) && messages.Kind() != '[' {
		a.malformed("messages is not an array")
		messages = nil
	}
	for message := range jsonx.Elements(messages) {
		own := severity
		if message.Kind() != '{' {
			a.malformed("a message is not an object")
			own = schemas.SeverityError
		} else if v, ok := jsonx.Lookup(message, "severity"); ok && !isNull(v) {
			text, _ := jsonx.StringOf(v)
			own = severityOf(text)
		}
		a.count(own)
	}
	if a.Errors+a.Warnings+a.Infos == 0 && !*a.Valid {
		a.count(severity)
	}
}

func (a *Answer) count(severity schemas.Severity) {
	switch severity {
	case schemas.SeverityWarn:
		a.Warnings++
	case schemas.SeverityInfo:
		a.Infos++
	default:
		a.Errors++
	}
}
