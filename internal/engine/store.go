package engine

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chaintrail/chaintrail/internal/engine/chdb"
)

// killInterval is how often a statement whose client is gone is killed again, until it has ended: the first kill may
// come before the engine has registered the statement.
const killInterval = 100 * time.Millisecond

// store opens sessions on the one data directory of the process.
type store struct {
	library  *chdb.Library
	dir      string
	settings map[string]string // hold for every session unless the request names others
	version  string
	timezone string
	guard    guard

	// mu covers control, which keeps the engine running while no statement does, and kills statements.
	mu      sync.Mutex
	control *chdb.Conn
}

func openStore(cfg ServeConfig) (*store, error) {
	library, err := openLibrary(cfg.Library)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{"async_insert": "0"} // an answered INSERT must be stored
	maps.Copy(settings, cfg.Settings)
	// A folder below: the engine owns every name in its directory, and the lock must not lie among them.
	s := &store{library: library, dir: filepath.Join(cfg.DataDir, "store"), settings: settings}
	if s.control, err = library.Connect(s.dir, memoryLimits(cfg.MaxMemory)...); err != nil {
		return nil, err
	}
	if err := s.learn(); err != nil {
		s.close()
		return nil, fmt.Errorf("ask the engine about itself: %w", err)
	}
	return s, nil
}

// memoryLimits are what the first connection tells the engine as a whole. Its caches would take gigabytes by default.
func memoryLimits(total int64) []string {
	if total <= 0 {
		return nil
	}
	limits := []string{fmt.Sprintf("max_server_memory_usage=%d", total)}
	for _, cache := range []string{"mark_cache_size", "primary_index_cache_size", "index_mark_cache_size"} {
		limits = append(limits, fmt.Sprintf("%s=%d", cache, total/8))
	}
	return limits
}

func (s *store) learn() error {
	if _, _, err := s.control.Exec("SET "+setList(s.settings), ""); err != nil {
		return err
	}
	answer, _, err := s.control.Exec("SELECT version(), timezone()", "TSVRaw")
	if err != nil {
		return err
	}
	s.version, s.timezone, _ = strings.Cut(strings.TrimSuffix(string(answer), "\n"), "\t")
	names, _, err := s.control.Exec("SELECT name FROM system.table_functions", "TSVRaw")
	if err != nil {
		return err
	}
	s.guard = newGuard(strings.Fields(string(names)))
	return nil
}

func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control.Close()
}

// session opens a session with the settings, parameters and database of one request. The tag marks its statements for
// kill.
func (s *store) session(req *request, tag string) (*chdb.Conn, error) {
	conn, err := s.library.Connect(s.dir)
	if err != nil {
		return nil, err
	}
	if err := prepare(conn, s.settings, req, tag); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func prepare(conn *chdb.Conn, base map[string]string, req *request, tag string) error {
	comment := tag
	if own := req.settings["log_comment"]; own != "" {
		comment += " " + own
	}
	settings := maps.Clone(base)
	maps.Copy(settings, req.settings)
	settings["log_comment"] = comment
	statements := []string{"SET " + setList(settings)}
	if req.database != "" && req.database != "default" {
		statements = append(statements, "USE "+quoteName(req.database))
	}
	if req.readonly != "" {
		statements = append(statements, "SET readonly="+quoteText(req.readonly)) // last: it forbids all others
	}
	for _, statement := range statements {
		if _, _, err := conn.Exec(statement, ""); err != nil {
			return err
		}
	}
	return nil
}

// kill stops the statement with the tag, if it runs.
func (s *store) kill(tag string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, err := s.control.Exec("KILL QUERY WHERE startsWith(Settings['log_comment'], "+quoteText(tag)+") ASYNC", "Null")
	return err
}

// killWhenDone kills the statement with the tag once ctx is done, until the returned function is called.
func (s *store) killWhenDone(ctx context.Context, tag string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() { // exits when stop is called
		defer close(ended)
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		again := time.NewTicker(killInterval)
		defer again.Stop()
		for {
			_ = s.kill(tag) // repeated anyway, and the client is gone
			select {
			case <-done:
				return
			case <-again.C:
			}
		}
	}()
	return func() { close(done); <-ended }
}

// setList writes settings as `a='1', b='x'`; every setting takes its value as a string.
func setList(settings map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, name+"="+quoteText(settings[name]))
	}
	return strings.Join(list, ", ")
}

func quoteText(s string) string { return "'" + escape(s, "'") + "'" }
func quoteName(s string) string { return "`" + escape(s, "`") + "`" }

func escape(s, quote string) string {
	return strings.NewReplacer(`\`, `\\`, quote, `\`+quote, "\x00", `\0`).Replace(s)
}
