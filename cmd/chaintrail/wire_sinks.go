package main

import (
	"context"
	"fmt"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/sinks"
	"github.com/chaintrail/chaintrail/sinks/file"
	"github.com/chaintrail/chaintrail/sinks/stdout"
)

// letters is where a sink puts what it cannot store.
func (n *node) letters(sink string) sinks.DeadLetters {
	return redactedLetters{file.NewLetters(n.cfg.Dir("dead-letters", sink+".ndjson")), n.app.redactor}
}

// writeSinks runs the configured further destinations of the sealed events.
func (n *node) writeSinks(ctx context.Context) error {
	for i, s := range n.cfg.Sinks {
		name := fmt.Sprintf("%s-%d", s.Type, i)
		var sink sinks.Sink
		switch s.Type {
		case "file":
			f, err := file.New(file.Config{Dir: s.Path, MaxBytes: int64(s.Rotate)})
			if err != nil {
				return err
			}
			sink = f
		case "stdout":
			sink = stdout.New(stdout.Config{Out: n.app.out, Cursors: bus.NewCursors(n.bus.js), Name: name})
		}
		p := sinks.NewPipeline(sinks.Parts{
			Source: bus.NewReader(n.bus.js, bus.EventStream(shard), nil, n.log),
			Decode: sinks.DecodeEvent, Sink: sink, Letters: n.letters(name),
		}, &sinks.Options{Log: n.log})
		n.pipelines = append(n.pipelines, p)
		part := n.drained("sink "+name, bus.EventStream(shard), p)
		if f, ok := sink.(*file.Sink); ok {
			stop := part.Stop
			part.Stop = func(ctx context.Context) error {
				if err := stop(ctx); err != nil {
					return err
				}
				return f.Close()
			}
		}
		if err := n.group.Start(ctx, part); err != nil {
			return err
		}
	}
	return nil
}
