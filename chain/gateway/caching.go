package gateway

import (
	"bytes"
	"strconv"

	"github.com/chaintrail/chaintrail/chain/wire"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// narrowCache keeps a mutated result from being cached more widely than the server allowed
// (2026-07-28, CacheableResult): never for longer, and only for the caller whom it was made for,
// because interceptors may decide by caller.
func narrowCache(before, after jsonx.Value) jsonx.Value {
	if !bytes.Contains(before, []byte(`"ttlMs"`)) && !bytes.Contains(before, []byte(`"cacheScope"`)) &&
		!bytes.Contains(after, []byte(`"ttlMs"`)) && !bytes.Contains(after, []byte(`"cacheScope"`)) {
		return after
	}
	_, had := jsonx.Lookup(before, "cacheScope")
	is, has := jsonx.Lookup(after, "cacheScope")
	if (had || has) && string(is) != `"private"` {
		after = wire.WithMember(after, "cacheScope", jsonx.Value(`"private"`))
	}
	was, had := jsonx.Lookup(before, "ttlMs")
	if !had {
		was = jsonx.Value("0")
	}
	is, has = jsonx.Lookup(after, "ttlMs")
	if !had && !has {
		return after
	}
	if now, ok := number(is); ok {
		if limit, ok := number(was); ok && now <= limit {
			return after
		}
	}
	return wire.WithMember(after, "ttlMs", was)
}

func number(v jsonx.Value) (float64, bool) {
	f, err := strconv.ParseFloat(string(v), 64)
	return f, err == nil
}
