// Package detect finds secrets and personal data in bytes, for all parts that look for them: the policy
// of what is kept, logs, and the interceptors that block or redact.
//
// A [Detector] finds them by what they look like (tokens, keys, connection strings, e-mail addresses, card,
// account and phone numbers) and by the names they stand under (password, secret, api_key …). It reads the
// bytes once, keeps JSON valid, looks through JSON escapes and into JSON that lies in strings, and works
// on any other text as well. What is not found stays byte for byte.
//
// It is a filter for known forms, not a proof: a secret that looks like prose, or one that is split over
// two values, passes.
package detect
