package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"uuid"

	"github.com/chaintrail/chaintrail/bus/outbox"
	"github.com/chaintrail/chaintrail/schemas"
)

func Example() {
	dir, err := os.MkdirTemp("", "journals")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	cfg := outbox.DefaultConfig()
	cfg.Dir = dir
	o, err := outbox.Open(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}

	rec := schemas.Record{Event: schemas.Event{
		Kind:        schemas.KindRequest,
		Correlation: &schemas.Correlation{Exchange: uuid.NewV7()},
	}}
	rec.Add(schemas.RoleBefore, 0, []byte(`{"name":"read_file"}`))
	if err := o.Record(ctx, &rec); err != nil {
		panic(err)
	}
	if err := o.Close(ctx); err != nil {
		panic(err)
	}

	for e, err := range outbox.Scan(o.Dir()) {
		fmt.Println(e.Seq, e.Kind, len(e.Items), err)
	}
	// Output:
	// 1 writer 0 <nil>
	// 2 request 1 <nil>
	// 3 outcome 0 <nil>
	// 4 writer 0 <nil>
}
