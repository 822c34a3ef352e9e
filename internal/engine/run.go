package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"uuid"

	"github.com/chaintrail/chaintrail/internal/engine/chdb"
)

// insertPiece is how much of the data of an INSERT is handed to the engine at once.
const insertPiece = 256 << 10

// run executes a request in a session of its own.
func (h *handler) run(ctx context.Context, out *answer, req *request) error {
	out.begin(req, h.store.timezone)
	if req.kind == kindHello {
		block, err := hello(req.revision, h.store.version, h.store.timezone)
		if err != nil {
			return err
		}
		return out.whole(block)
	}
	release, err := h.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	tag := "chaintrail:" + uuid.New().String()
	session, err := h.store.session(req, tag)
	if err != nil {
		return err
	}
	defer session.Close()
	if req.readonly != "" && req.readonly != "0" {
		if err := h.store.guard.check(session, req); err != nil {
			return err
		}
	}
	if req.kind == kindInsert {
		return h.insert(ctx, out, session, req)
	}
	defer h.store.killWhenDone(ctx, tag)()
	if req.kind == kindStream {
		return h.stream(out, session, req)
	}
	return h.whole(out, session, req)
}

// enter waits for a place among the running statements.
func (h *handler) enter(ctx context.Context) (release func(), err error) {
	select {
	case h.waiting <- struct{}{}:
	default:
		return nil, refuse(http.StatusServiceUnavailable, codeTooMany, "TOO_MANY_SIMULTANEOUS_QUERIES",
			"Too many statements run or wait (%d); try again later", cap(h.waiting))
	}
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots; <-h.waiting }, nil
	case <-ctx.Done():
		<-h.waiting
		return nil, refuse(http.StatusServiceUnavailable, codeCancelled, "QUERY_WAS_CANCELLED", "The client went away before the statement began")
	}
}

func (h *handler) whole(out *answer, session *chdb.Conn, req *request) error {
	data, stats, err := session.Exec(req.sql, req.format, req.params...)
	if err != nil {
		return err
	}
	out.summary(stats)
	return out.whole(data)
}

// stream sends the result while the engine makes it. The first chunk comes before the status line, so that errors of
// planning are answered as such.
func (h *handler) stream(out *answer, session *chdb.Conn, req *request) error {
	stream, err := session.Stream(req.sql, req.format, req.params...)
	if err != nil {
		if e, ok := errors.AsType[*chdb.Error](err); ok && strings.Contains(e.Message, "Streaming query is not supported") {
			return h.whole(out, session, req) // WITH … INSERT; nothing has been executed
		}
		return err
	}
	defer stream.Close()
	first := true
	for {
		data, _, err := stream.Next()
		if err != nil {
			return err
		}
		if len(data) == 0 {
			break
		}
		first = false
		if err := out.chunk(data); err != nil {
			return err
		}
	}
	if !first {
		return nil
	}
	stream.Close()
	return out.whole(columnsOf(session, req))
}

// columnsOf returns what tells a driver the columns of a result without rows, if that can be found out.
func columnsOf(session *chdb.Conn, req *request) []byte {
	if !strings.EqualFold(req.format, "Native") || anyFormat.MatchString(req.sql) {
		return nil
	}
	described, _, err := session.Exec("DESCRIBE ("+strings.TrimRight(req.sql, "; \t\r\n")+"\n)", "TSVRaw", req.params...)
	if err != nil {
		return nil
	}
	var columns [][2]string
	for line := range strings.Lines(string(described)) {
		fields := strings.Split(line, "\t")
		if len(fields) < 2 {
			return nil
		}
		columns = append(columns, [2]string{fields[0], fields[1]})
	}
	return emptyBlock(columns)
}

// insert feeds the body to the engine. A body that ends early abandons the insert; one that came completely is stored
// whether or not the client still waits, since it may not know the outcome anyway.
func (h *handler) insert(ctx context.Context, out *answer, session *chdb.Conn, req *request) error {
	insert, err := session.Insert(req.sql, req.format, req.params...)
	if err != nil {
		return err
	}
	defer insert.Close()
	if err := feed(ctx, insert, patient{out, req.data}); err != nil {
		if !errors.Is(err, chdb.ErrStopped) {
			return err
		}
		if _, err := insert.Done(); err != nil { // the reason why the engine stopped reading
			return err
		}
		return err
	}
	out.patience(readSide, 0) // or it would end the request's context while the rows are stored
	stats, err := insert.Done()
	if err != nil {
		return err
	}
	out.summary(stats)
	return out.whole(nil)
}

// feed hands the data to the engine in pieces. Only a clean end of the body is an end of the data: a connection that
// broke reports another error, and then nothing more may be stored.
func feed(ctx context.Context, insert io.Writer, data io.Reader) error {
	piece := make([]byte, insertPiece)
	filled := 0
	for {
		n, err := data.Read(piece[filled:])
		filled += n
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return refuse(http.StatusBadRequest, codeBadArguments, "BAD_ARGUMENTS", "The data of the INSERT ended early: %v", err)
		}
		if filled == len(piece) || ended {
			if _, err := insert.Write(piece[:filled]); err != nil {
				return err
			}
			filled = 0
		}
		if ended {
			return ctx.Err()
		}
	}
}

// patient is a body whose client may stall for a while only.
type patient struct {
	out  *answer
	body io.Reader
}

func (p patient) Read(data []byte) (int, error) {
	p.out.patience(readSide, stallTimeout)
	return p.body.Read(data)
}

// summary names what a statement did, in the header that servers use for it.
func (a *answer) summary(stats chdb.Stats) {
	a.w.Header().Set("X-ClickHouse-Summary", fmt.Sprintf(`{"read_rows":"%d","read_bytes":"%d","written_rows":"%d"}`,
		stats.RowsRead, stats.BytesRead, stats.RowsWritten))
}
