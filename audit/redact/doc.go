// Package redact decides what is kept of a value from outside, and takes secrets and personal data
// out of what is kept.
//
//	record ── Recorder ──┬─ commitment over the true bytes
//	                     ├─ kept form by Policy: none | digest | redacted | full, capped
//	                     └─ encrypted snapshot, where deferred work needs what was not kept
//
// What is a secret is the word of package detect: a filter for known forms, not a proof. Where that is not
// enough the policy is digest or none.
package redact
