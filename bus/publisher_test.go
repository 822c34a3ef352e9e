package bus_test

import (
	"testing"
	"uuid"

	"github.com/chaintrail/chaintrail/bus"
	"github.com/chaintrail/chaintrail/bus/bustest"
	"github.com/chaintrail/chaintrail/schemas"
)

func TestPublishKeepsOrder(t *testing.T) {
	t.Parallel()
	js := bustest.Start(t, nil).Shard(nil)
	writer := uuid.NewV7()
	j := newJournal()
	_, _ = publish(t, js, j, bus.PublisherConfig{Writer: writer})
	const count = 3000
	for seq := uint64(1); seq <= count; seq++ {
		j.add(entry(writer, seq, 500, item(schemas.RoleBefore, fill(200, byte(seq))), item(schemas.RoleContext, []byte("{}"))))
	}
	j.waitPublished(t, count)
	sequence(t, readAll(t, js, bus.EventStream(0), count), writer, j.entries)
	if got := streamCount(t, js, bus.OpenStream(0)); got != 2*count {
		t.Errorf("the open stream holds %d messages, want %d", got, 2*count)
	}
}
