package bus

import "errors"

var (
	// ErrServerVersion is returned when the NATS server lacks what chaintrail needs; use a newer server.
	ErrServerVersion = errors.New("the NATS server is too old")
	// ErrMaxPayload is returned when the NATS server takes only messages too small for events; raise its max_payload.
	ErrMaxPayload = errors.New("max_payload of the NATS server is too small")
	// ErrNoJetStream is returned when the NATS account has no JetStream; enable it for the account.
	ErrNoJetStream = errors.New("JetStream is not enabled for this NATS account")
	// ErrFork is returned when the stream holds other content under a writer's number than its journal:
	// two processes write under one id, or a record was forged. The publisher MUST NOT go on.
	ErrFork = errors.New("the stream holds another event under this number")
	// ErrSubject is returned for a subject that is not one of chaintrail's, or whose parts cannot be encoded.
	ErrSubject = errors.New("not a chaintrail subject")
	// ErrHeader is returned for a message whose chaintrail headers are missing or malformed; treat it as undecodable.
	ErrHeader = errors.New("malformed chaintrail header")
	// ErrItems is returned when open items of an event are there, but damaged; the event itself is whole.
	ErrItems = errors.New("open items are damaged")
	// ErrRefused is returned by one try of publishing when the stream holds another last message of
	// this writer than expected: an earlier try arrived after all, or the stream was trimmed.
	ErrRefused = errors.New("another last message of this writer")
	// ErrBehind is returned by a reader when the stream ends before the wanted position: it was lost or
	// made anew. The position means nothing any more; compare with the journals before going on.
	ErrBehind = errors.New("the stream ends before this position")
)
