package interceptor

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// appendResult writes the flat result: type is its first member, because there are readers that
// choose the class by it.
func appendResult(dst []byte, d *Descriptor, as schemas.InterceptorType, call *Call, out *outcome, durationMS int64) ([]byte, error) {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, as...)
	dst = appendQuoted(append(dst, `","interceptor":`...), d.Name)
	dst = append(append(append(dst, `,"phase":"`...), call.Phase...), '"')
	var err error
	switch {
	case d.Type == schemas.TypeValidation:
		dst, err = appendVerdict(dst, &out.verdict)
	case d.Type == schemas.TypeSink && as == schemas.TypeValidation:
		dst = append(dst, `,"valid":true`...)
	case d.Type == schemas.TypeSink:
		dst, err = appendReceipt(dst, &out.receipt)
	default:
		dst = strconv.AppendBool(append(dst, `,"modified":`...), out.modified)
		dst = append(append(dst, `,"payload":`...), out.payload...)
	}
	if err != nil {
		return nil, err
	}
	if out.info != nil {
		if !isObject(out.info) {
			return nil, errors.New("info is not a JSON object")
		}
		dst = append(append(dst, `,"info":`...), out.info...)
	}
	dst = strconv.AppendInt(append(dst, `,"durationMs":`...), durationMS, 10)
	if wire.Modern(call.version) {
		dst = append(dst, `,"resultType":"complete"`...)
	}
	return append(dst, '}'), nil
}

func appendVerdict(dst []byte, v *Verdict) ([]byte, error) {
	dst = strconv.AppendBool(append(dst, `,"valid":`...), v.Valid)
	severity := v.Severity
	if severity == "" && !v.Valid {
		severity = schemas.SeverityError
	}
	if severity != "" {
		dst = appendQuoted(append(dst, `,"severity":`...), string(severity))
	}
	for i, m := range v.Messages {
		dst = append(dst, separator(i, `,"messages":[`)...)
		dst = append(dst, '{')
		if m.Path != "" {
			dst = append(appendQuoted(append(dst, `"path":`...), m.Path), ',')
		}
		dst = appendQuoted(append(dst, `"message":`...), m.Message)
		dst = appendQuoted(append(dst, `,"severity":`...), string(cmp.Or(m.Severity, severity, schemas.SeverityInfo)))
		dst = append(dst, '}')
	}
	if len(v.Messages) > 0 {
		dst = append(dst, ']')
	}
	for i, s := range v.Suggestions {
		if traits, err := jsonx.Verify(s.Value, 0); err != nil || traits.Duplicates || traits.InvalidUTF8 {
			return nil, errors.New("value of a suggestion is not JSON")
		}
		dst = append(dst, separator(i, `,"suggestions":[`)...)
		dst = appendQuoted(append(dst, `{"path":`...), s.Path)
		dst = append(append(append(dst, `,"value":`...), s.Value...), '}')
	}
	if len(v.Suggestions) > 0 {
		dst = append(dst, ']')
	}
	return dst, nil
}

func appendReceipt(dst []byte, r *Receipt) ([]byte, error) {
	dst = strconv.AppendBool(append(dst, `,"recorded":`...), r.Recorded)
	for i, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		number, err := jsonx.Marshal(r.Metrics[name])
		if err != nil {
			return nil, errors.New("metric is not a finite number")
		}
		dst = append(dst, separator(i, `,"metrics":{`)...)
		dst = append(append(appendQuoted(dst, name), ':'), number...)
	}
	if len(r.Metrics) > 0 {
		dst = append(dst, '}')
	}
	return dst, nil
}

// separator opens a list at its first element and parts the others.
func separator(i int, open string) string {
	if i == 0 {
		return open
	}
	return ","
}

func appendQuoted(dst []byte, s string) []byte {
	dst, _ = jsonx.AppendQuote(dst, s) // invalid UTF-8 is written as replacement characters
	return dst
}
