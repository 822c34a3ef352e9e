package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// targets are what the cases tamper with, chosen by the seed. Their names stand in braces in the statements of the cases.
type targets map[string]string

func (t targets) fill(text string) string {
	for name, value := range t {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// choose draws the targets.
func (t *trail) choose(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(t.seed, 1)) //nolint:gosec // G404: not a secret
	t.targets = targets{}
	if err := t.conn.QueryRow(ctx, "SELECT count() FROM events").Scan(&t.events); err != nil {
		return err
	}
	for _, target := range []struct{ name, query string }{
		// an outcome of a tool call well before the end, the event before it in the stream, and the end
		{"outcome", "SELECT toString(position) FROM interceptions WHERE kind = 'outcome' AND event = 'tools/call' AND outcome = 'allowed' AND position < (SELECT max(position) - 12 FROM events) ORDER BY position"},
		{"denied", "SELECT toString(position) FROM interceptions WHERE kind = 'outcome' AND outcome = 'denied' ORDER BY position"},
		{"request", "SELECT toString(position) FROM interceptions WHERE kind = 'request' AND event = 'tools/call' AND position < (SELECT max(position) - 12 FROM events) ORDER BY position"},
		{"plan", "SELECT toString(position) FROM plans ORDER BY position"},
		{"checked", "SELECT toString(position) FROM invocations WHERE valid = false ORDER BY position"},
		{"deferred", "SELECT toString(position) FROM invocations WHERE kind = 'invocation' ORDER BY position"},
		{"checkpoint", "SELECT toString(position) FROM events WHERE kind = 'checkpoint' AND position < (SELECT max(position) - 12 FROM events) ORDER BY position"},
		{"close", "SELECT toString(position) FROM events WHERE kind = 'writer' AND raw LIKE '%\"state\":\"close\"%' AND position < (SELECT max(position) - 12 FROM events) ORDER BY position"},
		{"adopted", "SELECT toString(position) FROM events WHERE kind = 'writer' AND raw LIKE '%\"state\":\"adopted\"%' ORDER BY position"},
		{"body", "SELECT toString(event_id) FROM bodies WHERE length(data) > 2 ORDER BY position"},
		{"context", "SELECT toString(event_id) FROM open_items WHERE role = 'context' AND target != '' ORDER BY position"},
		{"first_writer", "SELECT toString(writer) FROM events WHERE seq = 1 ORDER BY position LIMIT 1"},
		{"last", "SELECT toString(max(position)) FROM events"},
		{"last_leaf", "SELECT toString(max(leaf)) FROM events WHERE kind != 'checkpoint'"},
	} {
		found, err := t.strings(ctx, target.query)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("the trail has nothing to tamper with for %s", target.name)
		}
		t.targets[target.name] = found[rng.IntN(len(found))]
	}
	last, err := strconv.ParseUint(t.targets["last"], 10, 64)
	if err != nil {
		return err
	}
	t.targets["behind"] = strconv.FormatUint(last+1, 10)
	leaf, err := strconv.ParseUint(t.targets["last_leaf"], 10, 64)
	if err != nil {
		return err
	}
	t.targets["next_leaf"] = strconv.FormatUint(leaf+1, 10)
	return nil
}

func (t *trail) strings(ctx context.Context, query string) (found []string, err error) {
	rows, err := t.conn.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close() //nolint:errcheck // Err says what went wrong
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// mutated waits for mutations.
func mutated(ctx context.Context) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2, "lightweight_deletes_sync": 2}))
}
