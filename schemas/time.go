package schemas

import (
	"fmt"
	"time"
)

// Time is an instant in UTC with microsecond resolution: microseconds since the Unix epoch.
type Time int64

const timeLayout = "2006-01-02T15:04:05.000000Z"

// At returns t as a Time; what is finer than a microsecond is cut off.
func At(t time.Time) Time { return Time(t.UnixMicro()) }

// Std returns the instant as a time.Time in UTC.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

// String is RFC 3339 in UTC with exactly six fractional digits.
func (t Time) String() string { return t.Std().Format(timeLayout) }

// AppendText implements encoding.TextAppender with the form of String.
func (t Time) AppendText(b []byte) ([]byte, error) {
	return t.Std().AppendFormat(b, timeLayout), nil
}

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// UnmarshalText reads RFC 3339 in UTC with exactly six fractional digits.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := parseTime(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}

func parseTime(s string) (Time, error) {
	std, err := time.Parse(timeLayout, s)
	if err != nil {
		return 0, fmt.Errorf("time must look like %s: %w", timeLayout, err)
	}
	return At(std), nil
}
