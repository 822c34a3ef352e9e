package engine

import (
	"log/slog"
	"net/url"
)

// DSN is the address of the engine for clickhouse.ParseDSN, such as http://chaintrail:TOKEN@127.0.0.1:8123/default. It
// holds the token: log it only as a [slog.LogValuer], or by [DSN.Redacted].
type DSN string

func newDSN(addr, token string) DSN {
	u := url.URL{Scheme: "http", User: url.UserPassword("chaintrail", token), Host: addr, Path: "/default"}
	return DSN(u.String())
}

// WithDatabase returns the address with another database.
func (d DSN) WithDatabase(name string) DSN {
	u, err := url.Parse(string(d))
	if err != nil {
		return d
	}
	u.Path = "/" + name
	return DSN(u.String())
}

// Redacted returns the address without the token.
func (d DSN) Redacted() string {
	u, err := url.Parse(string(d))
	if err != nil {
		return "(malformed)"
	}
	return u.Redacted()
}

// LogValue implements [slog.LogValuer].
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.Redacted()) }
