package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/internal/query"
	"github.com/chaintrail/chaintrail/internal/retry"
	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

const (
	tailEvery = 300 * time.Millisecond
	tailPage  = 1000             // exchanges in one look
	tailWait  = 10 * time.Second // for one look; a store that is gone must not look like quiet traffic
)

func newTailCmd(a *app) *cobra.Command {
	var f filterFlags
	var recent int
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow exchanges as they are stored",
		Long:  "Prints the last exchanges, then each new one as it is stored, until it is interrupted.\nWith -o json each line is one JSON object, with -o yaml each exchange is one document.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter(time.Now())
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, n *node) error {
				if n.ownEngine {
					return withHint(errors.New("nothing runs on this data directory, so nothing new can be followed"), "chaintrail up, or chaintrail search for what is stored")
				}
				return stopped(ctx, a.tail(ctx, n, filter, recent))
			})
		},
	}
	f.register(cmd)
	cmd.Flags().IntVarP(&recent, "lines", "n", 10, "exchanges to begin with")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) tail(ctx context.Context, n *node, filter query.Filter, recent int) error {
	conn, err := clickhouse.Open(n.dsn)
	if err != nil {
		return usage(err)
	}
	defer conn.Close() //nolint:errcheck // read only
	reader := query.New(conn)
	cursor, err := reader.Now(ctx)
	if err != nil {
		return queryError(err)
	}
	if recent > 0 {
		filter.Limit = recent
		found, err := reader.Search(ctx, filter)
		if err != nil {
			return queryError(err)
		}
		for _, x := range slices.Backward(found) {
			if err := a.tailLine(&x); err != nil {
				return err
			}
		}
	}
	filter.Limit = tailPage
	for {
		found, next, err := look(ctx, reader, cursor, filter)
		if err != nil {
			return queryError(err)
		}
		cursor = next
		for i := range found {
			if err := a.tailLine(&found[i]); err != nil {
				return err
			}
		}
		if len(found) == tailPage {
			continue // there is more: a pause would fall behind
		}
		if !retry.Sleep(ctx, tailEvery) {
			return context.Cause(ctx)
		}
	}
}

func look(ctx context.Context, reader *query.Reader, after query.Cursor, f query.Filter) ([]query.Exchange, query.Cursor, error) {
	wait, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	found, next, err := reader.Tail(wait, after, f)
	if err != nil && ctx.Err() == nil {
		err = withHint(fmt.Errorf("follow the store: %w", err), "see whether it still runs: chaintrail doctor")
	}
	return found, next, err
}

func (a *app) tailLine(x *query.Exchange) error {
	switch a.output {
	case "yaml":
		if _, err := fmt.Fprintln(a.out, "---"); err != nil {
			return err
		}
		return a.print(x, nil)
	case "json":
		line, err := jsonx.Marshal(x)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "%s\n", line)
		return err
	}
	r := exchangeRow(x)
	_, err := fmt.Fprintf(a.out, "%s  %s  %-9s %8s ms  %s %s %s  %s\n",
		r[0], r[1], r[5], r[6], printable(r[2], 24), printable(r[3], 32), printable(r[4], 60), printable(r[8], 60))
	return err
}

// queryError gives faults of the question the exit code of a usage error.
func queryError(err error) error {
	switch {
	case errors.Is(err, query.ErrFilter), errors.Is(err, query.ErrAmbiguous):
		return usage(err)
	case errors.Is(err, query.ErrNotFound):
		return withHint(err, "chaintrail search; what was just called may take a second to be stored")
	}
	return err
}
