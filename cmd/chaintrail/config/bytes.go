package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bytes is a size; in YAML a number of bytes, or a number with the unit B, KiB, MiB, GiB or TiB.
type Bytes int64

var units = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalYAML implements yaml.Unmarshaler.
func (b *Bytes) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParseBytes(n.Value)
	if err != nil {
		return err
	}
	*b = v
	return nil
}

// ParseBytes reads a size such as "512 MiB" or "1048576".
func ParseBytes(s string) (Bytes, error) {
	text, unit := strings.TrimSpace(s), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size: write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 512MiB", s)
	}
	return Bytes(n * unit), nil
}

// String uses the largest unit that divides the size.
func (b Bytes) String() string {
	for _, u := range units {
		if int64(b) >= u.size && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + " " + u.name
		}
	}
	return "0 B"
}
