package engine

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/klauspost/compress/zstd"
)

// decodeBody undoes the content encoding of a request.
func decodeBody(encoding string, body io.Reader) (io.Reader, error) {
	var reader io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		reader, err = gzip.NewReader(body)
	case "deflate":
		reader, err = zlib.NewReader(body)
	case "zstd":
		// Without concurrency the decoder starts no goroutine and needs no closing.
		reader, err = zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	default:
		return nil, refuse(http.StatusUnsupportedMediaType, codeNotImplemented, "NOT_IMPLEMENTED",
			"Content encoding %q is not supported by the embedded engine; use none, gzip, deflate, zstd or compressed native blocks", encoding)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, codeBadArguments, "BAD_ARGUMENTS", "The body is no valid %s: %v", encoding, err)
	}
	return reader, nil
}

// decodeFrames undoes ClickHouse's own compression, which comes with decompress=1.
func decodeFrames(body io.Reader) io.Reader {
	from := &countingReader{from: body}
	return &frameReader{from: from, frames: compress.NewReader(from)}
}

// frameReader tells the end of the frames from an end inside of one, which the decoder reports alike.
type frameReader struct {
	from   *countingReader
	frames *compress.Reader
}

func (r *frameReader) Read(p []byte) (int, error) {
	before := r.from.count
	n, err := r.frames.Read(p)
	switch {
	case !errors.Is(err, io.EOF):
		return n, err
	case r.from.count == before:
		return n, io.EOF
	}
	return n, io.ErrUnexpectedEOF
}

type countingReader struct {
	from  io.Reader
	count int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.count += int64(n)
	return n, err
}

// frameSize is how much goes into one compressed frame.
const frameSize = 1 << 20

// frameWriter compresses what is written to it into ClickHouse's frames.
type frameWriter struct {
	to      io.Writer
	encoder *compress.Writer
}

func newFrameWriter(to io.Writer, method string) *frameWriter {
	with := compress.LZ4
	switch method {
	case "ZSTD":
		with = compress.ZSTD
	case "NONE":
		with = compress.None
	}
	return &frameWriter{to: to, encoder: compress.NewWriter(compress.LevelZero, with)}
}

func (w *frameWriter) Write(data []byte) (int, error) {
	written := 0
	for len(data) > 0 {
		piece := data[:min(len(data), frameSize)]
		if err := w.encoder.Compress(piece); err != nil {
			return written, fmt.Errorf("compress the result: %w", err)
		}
		if _, err := w.to.Write(w.encoder.Data); err != nil {
			return written, err
		}
		written += len(piece)
		data = data[len(piece):]
	}
	return written, nil
}
