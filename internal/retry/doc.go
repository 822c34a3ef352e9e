// Package retry repeats an operation with growing pauses.
//
// It is the only package that may use the backoff library, whose defaults lose data: it gives up after fifteen
// minutes, forgets the last error when the context ends, and strips the class of a permanent one. Do never gives up
// on time unless the policy says so, and always returns the last error together with the reason for stopping.
package retry
