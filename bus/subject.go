package bus

import (
	"fmt"
	"strconv"
	"strings"
	"uuid"

	"github.com/chaintrail/chaintrail/schemas"
)

const (
	eventPrefix = "chaintrail.v1"
	openPrefix  = "chaintrail-open.v1"

	// DefaultTenant stands for a tenant that is not set.
	DefaultTenant = "default"
	// MaxTenant bounds a tenant's name, in bytes, so that subjects stay far below the server's limit.
	MaxTenant = 256
)

// Class says for how long an open item is kept.
type Class string

// The classes of open items.
const (
	ClassKept      Class = "kept"      // until it is erased or its retention ends
	ClassTransient Class = "transient" // until deferred work is done, see [Sweeper]
)

// ClassOf returns the class of an item by its role.
func ClassOf(role schemas.Role) Class {
	if role == schemas.RoleSnapshot {
		return ClassTransient
	}
	return ClassKept
}

// Subject is what a message's subject says. Exactly one of Kind and Class is set.
type Subject struct {
	Shard  int
	Tenant string
	Writer uuid.UUID
	Kind   schemas.Kind // sealed events
	Class  Class        // open items
}

// String is the subject as sent:
//
//	chaintrail.v1.<shard>.<tenant>.<writer>.<kind>
//	chaintrail-open.v1.<shard>.<tenant>.<writer>.<class>
func (s Subject) String() string {
	if s.Class != "" {
		return writerSubject(openPrefix, s.Shard, s.Tenant, s.Writer) + string(s.Class)
	}
	return writerSubject(eventPrefix, s.Shard, s.Tenant, s.Writer) + EncodeToken(string(s.Kind))
}

// ParseSubject is the inverse of [Subject.String]; anything else is [ErrSubject].
func ParseSubject(subject string) (Subject, error) {
	rest, open := strings.CutPrefix(subject, openPrefix+".")
	if !open {
		var ok bool
		if rest, ok = strings.CutPrefix(subject, eventPrefix+"."); !ok {
			return Subject{}, fmt.Errorf("%w: %.200q", ErrSubject, subject)
		}
	}
	tokens := strings.Split(rest, ".")
	if len(tokens) != 4 {
		return Subject{}, fmt.Errorf("%w: %.200q has %d tokens after the version, not 4", ErrSubject, subject, len(tokens))
	}
	s := Subject{Class: Class(tokens[3])}
	var err error
	if s.Shard, err = strconv.Atoi(tokens[0]); err != nil || s.Shard < 0 || strconv.Itoa(s.Shard) != tokens[0] {
		return Subject{}, fmt.Errorf("%w: shard %.200q", ErrSubject, tokens[0])
	}
	if s.Tenant, err = DecodeToken(tokens[1]); err != nil {
		return Subject{}, fmt.Errorf("tenant: %w", err)
	}
	if s.Writer, err = uuid.Parse(tokens[2]); err != nil || s.Writer.String() != tokens[2] {
		return Subject{}, fmt.Errorf("%w: writer %.200q", ErrSubject, tokens[2])
	}
	if open {
		if s.Class != ClassKept && s.Class != ClassTransient {
			return Subject{}, fmt.Errorf("%w: class %.200q", ErrSubject, tokens[3])
		}
		return s, nil
	}
	kind, err := DecodeToken(tokens[3])
	if err != nil || kind == "" {
		return Subject{}, fmt.Errorf("%w: kind %.200q", ErrSubject, tokens[3])
	}
	s.Class, s.Kind = "", schemas.Kind(kind)
	return s, nil
}

// writerSubject ends with a dot: add a kind, a class or the wildcard ">".
func writerSubject(prefix string, shard int, tenant string, writer uuid.UUID) string {
	if tenant == "" {
		tenant = DefaultTenant
	}
	return prefix + "." + strconv.Itoa(shard) + "." + EncodeToken(tenant) + "." + writer.String() + "."
}

// EncodeToken maps any string to [a-z0-9-]+, no two to one: a-z and 0-9 stay, '-' becomes "--", any
// other byte '-' and two lower-case hex digits, the empty string "-". Subjects are case-sensitive and
// have reserved characters; tenants that differ only by case or Unicode form stay apart.
func EncodeToken(s string) string {
	if s == "" {
		return "-"
	}
	const digits = "0123456789abcdef"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteByte(c)
		case c == '-':
			b.WriteString("--")
		default:
			b.Write([]byte{'-', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

// DecodeToken is the inverse of [EncodeToken]; what EncodeToken never makes is [ErrSubject].
func DecodeToken(token string) (string, error) {
	if token == "-" {
		return "", nil
	}
	b := make([]byte, 0, len(token))
	for i := 0; i < len(token); i++ {
		switch {
		case token[i] != '-':
			b = append(b, token[i])
		case i+1 < len(token) && token[i+1] == '-':
			b, i = append(b, '-'), i+1
		case i+2 < len(token):
			n, err := strconv.ParseUint(token[i+1:i+3], 16, 8)
			if err != nil {
				return "", fmt.Errorf("%w: token %.200q", ErrSubject, token)
			}
			b, i = append(b, byte(n)), i+2
		default:
			return "", fmt.Errorf("%w: token %.200q", ErrSubject, token)
		}
	}
	if EncodeToken(string(b)) != token {
		return "", fmt.Errorf("%w: token %.200q", ErrSubject, token)
	}
	return string(b), nil
}
