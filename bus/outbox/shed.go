package outbox

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"sync"

	"github.com/chaintrail/chaintrail/schemas"
)

// shedFile counts what was shed, on disk, because what is not journaled has no other trace. It has
// two slots that are written in turn, so that one is whole at any time, and its bytes are allotted
// at the start, so that a full disk does not matter.
//
//	slot: 8 generation, 8 total, 8 declared, 8 seq of the last gap event, 8 from, 8 until, 4 CRC-32C
type shedFile struct {
	declaring sync.Mutex // held from asking what is undeclared to declare; taken before everything

	mu    sync.Mutex
	file  *os.File
	state shedState
}

type shedState struct {
	generation  uint64
	total       uint64 // exchanges shed
	declared    uint64 // of them, in gap events
	declaredSeq uint64 // of the last gap event
	from, until schemas.Time
}

const (
	shedName = "shed"
	shedSlot = 64
	shedUsed = 6 * 8
)

func createShedFile(path string) (*shedFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode) //nolint:gosec // a name of ours in a configured folder
	if err != nil {
		return nil, fmt.Errorf("make shed counter: %w", err)
	}
	s := &shedFile{file: f}
	for range 2 {
		if err := s.update(func(*shedState) {}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add counts one more shed exchange.
func (s *shedFile) add(at schemas.Time) error {
	return s.update(func(st *shedState) {
		if st.total == st.declared {
			st.from = at
		}
		st.total++
		st.until = at
	})
}

// declare notes that the gap event seq told of gap.
func (s *shedFile) declare(gap schemas.Gap, seq uint64) error {
	return s.update(func(st *shedState) {
		st.declared += gap.Count
		st.declaredSeq = seq
		st.from = gap.Until
	})
}

// undeclared is the gap that no event tells of yet.
func (s *shedFile) undeclared() schemas.Gap {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.gap()
}

func (st *shedState) gap() schemas.Gap {
	return schemas.Gap{From: st.from, Until: st.until, Count: st.total - st.declared, Reason: GapShed}
}

func (s *shedFile) update(change func(*shedState)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state
	change(&st)
	st.generation++
	b := st.encode()
	if _, err := s.file.WriteAt(b, int64(st.generation%2)*shedSlot); err != nil {
		return fmt.Errorf("count what is shed: %w", err)
	}
	s.state = st
	return nil
}

func (s *shedFile) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Close()
}

func (st *shedState) encode() []byte {
	b := make([]byte, 0, shedSlot)
	le := binary.LittleEndian
	for _, v := range []uint64{
		st.generation, st.total, st.declared, st.declaredSeq,
		uint64(st.from), uint64(st.until), //nolint:gosec // same bits
	} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return b[:shedSlot]
}

// readShed returns the newest whole slot; a file without one counts nothing.
func readShed(path string) (shedState, error) {
	b, err := os.ReadFile(path) //nolint:gosec // a name of ours in a configured folder
	if err != nil && !os.IsNotExist(err) {
		return shedState{}, fmt.Errorf("read shed counter: %w", err)
	}
	var best shedState
	for ; len(b) >= shedUsed+4; b = b[min(len(b), shedSlot):] {
		if st, ok := decodeShed(b); ok && st.generation >= best.generation {
			best = st
		}
	}
	return best, nil
}

func decodeShed(b []byte) (shedState, bool) {
	le := binary.LittleEndian
	if le.Uint32(b[shedUsed:]) != crc32.Checksum(b[:shedUsed], castagnoli) {
		return shedState{}, false
	}
	st := shedState{
		generation: le.Uint64(b), total: le.Uint64(b[8:]), declared: le.Uint64(b[16:]), declaredSeq: le.Uint64(b[24:]),
		from: schemas.Time(le.Uint64(b[32:])), until: schemas.Time(le.Uint64(b[40:])), //nolint:gosec // same bits
	}
	return st, st.declared <= st.total
}
