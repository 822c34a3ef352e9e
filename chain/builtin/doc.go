// Package builtin holds the interceptors that come with chaintrail. Each has a name in the namespace
// chaintrail/, a configuration with a schema, and works without one. They run in process, by the key
// builtin: of the configuration, or behind `chaintrail interceptors serve`:
//
//	secret-detector   validator   keys, tokens and passwords
//	secret-redactor   mutator     the same, replaced
//	pii-redactor      mutator     e-mail addresses, card, account and phone numbers
//	schema-validator  validator   arguments and results against JSON Schemas
//	policy            validator   rules in CEL
//	size-limit        validator   bytes of messages
//	rate-limit        validator   calls in time, by principal, session, tool …
//	leak-guard        validator   a secret of one server that goes to another
//	tool-changes      validator   tools whose description or schema changed
//
// The configuration of a call decides; the one given to [New] stands in where a call brings none. What a
// configuration is made into, state included, is kept by its bytes for the last 64 configurations seen.
// Messages of verdicts never hold values of the payload, only names of places and rules.
package builtin
