package outbox

// counters only grow; covered by Outbox.mu.
type counters struct {
	records     uint64
	bytes       uint64
	refused     uint64
	shed        uint64
	writeErrors uint64
	syncs       uint64
	sabotaged   uint64
}

// Stats is the state of an outbox at one moment. Counters begin with the writer.
type Stats struct {
	Seq       uint64 // of the last journaled event
	Published uint64 // acknowledged by the stream, as told by Published
	Released  uint64 // stored and sealed, as told by Release

	UsedBytes     int64
	MaxBytes      int64
	Segments      int
	OpenExchanges int

	Records     uint64 // journaled
	Bytes       uint64 // journaled
	Refused     uint64 // Records that returned an error
	Shed        uint64 // exchanges shed
	Undeclared  uint64 // of them, without a gap event yet
	WriteErrors uint64
	Syncs       uint64 // group fdatasyncs
	Broken      bool   // see ErrBroken
}

// Stats returns the state of the outbox now.
func (o *Outbox) Stats() Stats {
	undeclared := o.shed.undeclared().Count
	o.mu.Lock()
	defer o.mu.Unlock()
	return Stats{
		Seq: o.seq, Published: o.published, Released: o.released,
		UsedBytes: o.used, MaxBytes: o.cfg.MaxBytes, Segments: len(o.segs), OpenExchanges: len(o.exchanges.open),
		Records: o.count.records, Bytes: o.count.bytes, Refused: o.count.refused, Shed: o.count.shed,
		Undeclared: undeclared, WriteErrors: o.count.writeErrors, Syncs: o.count.syncs, Broken: o.broken != nil,
	}
}
