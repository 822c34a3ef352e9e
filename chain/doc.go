// Package chain runs SEP-2624 interceptors: a [Plan] of what is in force, and a runner that takes a
// payload through it in the order of its direction.
package chain
