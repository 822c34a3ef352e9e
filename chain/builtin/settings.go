package builtin

import (
	"fmt"
	"sync"

	"github.com/chaintrail/chaintrail/chain/interceptor"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// maxSettings bounds the configurations that are kept made up; beyond it the least recently used goes.
const maxSettings = 64

// settings turns configurations of type C into what a handler works with, once for each.
type settings[C, T any] struct {
	build    func(c *C) (T, error)
	fallback jsonx.Value // for calls without a configuration

	mu    sync.Mutex // covers the rest
	uses  uint64
	built map[string]*setting[T]
}

type setting[T any] struct {
	value T
	used  uint64
}

// newSettings builds the fallback at once, so that its faults are told at the start.
func newSettings[C, T any](fallback jsonx.Value, build func(c *C) (T, error)) (*settings[C, T], error) {
	s := &settings[C, T]{build: build, fallback: fallback, built: map[string]*setting[T]{}}
	if _, err := s.get(nil); err != nil {
		return nil, err
	}
	return s, nil
}

// of returns what the configuration of a call was made into.
func (s *settings[C, T]) of(call *interceptor.Call) (T, error) { return s.get(call.Config) }

func (s *settings[C, T]) get(config jsonx.Value) (T, error) {
	if config == nil || string(config) == "null" {
		config = s.fallback
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	if known := s.built[string(config)]; known != nil {
		known.used = s.uses
		return known.value, nil
	}
	var c C
	var none T
	if config != nil {
		if err := jsonx.UnmarshalStrict(config, &c); err != nil {
			return none, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	value, err := s.build(&c)
	if err != nil {
		return none, err
	}
	if len(s.built) >= maxSettings {
		s.forget()
	}
	s.built[string(config)] = &setting[T]{value: value, used: s.uses}
	return value, nil
}

func (s *settings[C, T]) forget() {
	oldest, at := "", s.uses
	for config, known := range s.built {
		if known.used < at {
			oldest, at = config, known.used
		}
	}
	delete(s.built, oldest)
}
