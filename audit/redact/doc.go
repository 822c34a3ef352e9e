// Package redact decides what is kept of a value from outside, and takes secrets and personal data
// out of what is kept.
//
//	record ── Recorder ──┬─ commitment over the true bytes
//	                     ├─ kept form by Policy: none | digest | redacted | full, capped
//	                     └─ encrypted snapshot, where deferred work needs what was not kept
//
// A [Redactor] finds secrets by what they look like (tokens, keys, connection strings, e-mail, card
// numbers) and by the names they stand under (password, secret, api_key …). It reads the bytes once,
// keeps JSON valid, looks through JSON escapes and into JSON that lies in strings, and works on any
// other text as well. What is no secret stays byte for byte.
//
// It is a filter for known forms, not a proof: a secret that looks like prose, or one that is split
// over two values, passes. Where that is not enough the policy is digest or none.
package redact
