package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is a header of frameHeader bytes and a payload:
//
//	0  2  magic
//	2  1  type
//	3  1  flags
//	4  4  length of the payload, little endian
//	8  4  CRC-32C of bytes 2 to 8 and the payload, begun with the writer's nonce
const (
	frameHeader = 12
	magic0      = 0xC7
	magic1      = 0x1A

	frameSegment  = 'H' // JSON of segmentHeader; nonce 0
	frameCarried  = 'C' // JSON of []openExchange
	frameItem     = 'I'
	frameEvent    = 'E'
	flagMore      = 1 // frameEvent: commits only together with the next event
	readerWindow  = 64 << 10
	smallestArena = 64 << 10
)

// errTorn says that the bytes end inside a frame, or are none: what a crash leaves behind.
var errTorn = errors.New("frame is torn")

// errBadFrame is ErrCorrupt for bytes that are no frame. At the end of a journal a power loss may
// leave them behind.
var errBadFrame = fmt.Errorf("%w: bad frame", ErrCorrupt)

//nolint:gochecknoglobals // a constant table
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// beginFrame reserves a header at the end of b; endFrame completes it when the payload is appended.
func beginFrame(b []byte) (_ []byte, at int) {
	return append(b, make([]byte, frameHeader)...), len(b)
}

// endFrame completes the frame that began at. The payload is b[at+frameHeader:], followed by
// external bytes that the caller writes itself.
func endFrame(b []byte, at int, typ, flags byte, nonce uint32, external []byte) error {
	n := len(b) - at - frameHeader + len(external)
	if n > MaxRecord {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, MaxRecord)
	}
	h := b[at : at+frameHeader]
	h[0], h[1], h[2], h[3] = magic0, magic1, typ, flags
	binary.LittleEndian.PutUint32(h[4:], uint32(n)) //nolint:gosec // bounded above
	crc := crc32.Update(nonce, castagnoli, h[2:8])
	crc = crc32.Update(crc, castagnoli, b[at+frameHeader:])
	if len(external) > 0 {
		crc = crc32.Update(crc, castagnoli, external)
	}
	binary.LittleEndian.PutUint32(h[8:], crc)
	return nil
}

// frame is one frame as read. The payload stays valid.
type frame struct {
	typ, flags byte
	payload    []byte
}

// frameReader reads frames from r[off:limit]. The limit may grow while it is in use; what lies below
// it never changes.
type frameReader struct {
	r     io.ReaderAt
	nonce uint32
	off   int64 // of the next frame
	limit int64

	window []byte // bytes from off on
	space  []byte // backing of window
	arena  []byte // payloads are cut from it
}

func newFrameReader(r io.ReaderAt, off, limit int64, nonce uint32) *frameReader {
	return &frameReader{r: r, off: off, limit: limit, nonce: nonce}
}

// reset turns to another file, keeping the buffers.
func (f *frameReader) reset(r io.ReaderAt, off, limit int64, nonce uint32) {
	f.r, f.off, f.limit, f.nonce, f.window = r, off, limit, nonce, nil
}

// next returns the next frame; io.EOF exactly at the limit, errTorn when the rest is no whole frame,
// ErrCorrupt when a whole frame is not what was written. After an error off is unchanged.
func (f *frameReader) next() (frame, error) {
	rest := f.limit - f.off
	if rest == 0 {
		return frame{}, io.EOF
	}
	if rest < frameHeader {
		return frame{}, errTorn
	}
	if len(f.window) < frameHeader {
		if err := f.fill(); err != nil {
			return frame{}, err
		}
	}
	h := f.window[:frameHeader]
	if h[0] != magic0 || h[1] != magic1 {
		return frame{}, fmt.Errorf("%w: no frame at offset %d", errBadFrame, f.off)
	}
	n := int64(binary.LittleEndian.Uint32(h[4:]))
	if n > MaxRecord {
		return frame{}, fmt.Errorf("%w: %d bytes long at offset %d", errBadFrame, n, f.off)
	}
	if n > rest-frameHeader {
		return frame{}, errTorn
	}
	want := binary.LittleEndian.Uint32(h[8:])
	crc := crc32.Update(f.nonce, castagnoli, h[2:8])
	out := frame{typ: h[2], flags: h[3]}
	payload, err := f.payload(int(n))
	if err != nil {
		return frame{}, err
	}
	if crc32.Update(crc, castagnoli, payload) != want {
		f.window = nil
		return frame{}, fmt.Errorf("%w: checksum at offset %d differs", errBadFrame, f.off)
	}
	out.payload = payload
	f.off += frameHeader + n
	return out, nil
}

// payload returns the n bytes after the header at the beginning of the window, and moves the window.
func (f *frameReader) payload(n int) ([]byte, error) {
	p := f.cut(n)
	have := copy(p, f.window[frameHeader:])
	if have < n {
		f.window = nil
		if _, err := f.r.ReadAt(p[have:], f.off+frameHeader+int64(have)); err != nil {
			return nil, fmt.Errorf("read frame at offset %d: %w", f.off, err)
		}
		return p, nil
	}
	f.window = f.window[frameHeader+n:]
	return p, nil
}

func (f *frameReader) fill() error {
	if f.space == nil {
		f.space = make([]byte, readerWindow)
	}
	n := min(f.limit-f.off, readerWindow)
	if _, err := f.r.ReadAt(f.space[:n], f.off); err != nil {
		return fmt.Errorf("read frame at offset %d: %w", f.off, err)
	}
	f.window = f.space[:n]
	return nil
}

func (f *frameReader) cut(n int) []byte {
	if len(f.arena) < n {
		if n >= smallestArena/4 {
			return make([]byte, n)
		}
		f.arena = make([]byte, smallestArena)
	}
	p := f.arena[:n:n]
	f.arena = f.arena[n:]
	return p
}
