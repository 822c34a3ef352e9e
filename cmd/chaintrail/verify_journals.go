package main

import (
	"context"
	"errors"

	"github.com/chaintrail/chaintrail/audit/verify"
	"github.com/chaintrail/chaintrail/bus/outbox"
)

// verifyJournals judges the journals in a folder: what was written and is still on this disk.
func (a *app) verifyJournals(ctx context.Context, flags *verifyFlags) error {
	dirs, err := outbox.Journals(flags.journals)
	if err == nil && len(dirs) == 0 {
		err = errors.New("there is no journal in it")
	}
	if err != nil {
		return usage(withHint(err, "a folder like DATA/journals"))
	}
	c := verify.New(verify.Config{Source: "journals", Partial: true})
	p := a.progress("verifying journals", uint64(len(dirs)))
	defer p.end()
	for i, dir := range dirs {
		for entry, err := range outbox.Scan(dir) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				c.Broken(dir, err)
				break
			}
			c.Journaled(dir, &entry)
		}
		p.set(uint64(i) + 1)
	}
	return a.printReport(c.End())
}
