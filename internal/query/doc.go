// Package query reads what chaintrail stored: the questions that the command line asks, typed, bounded, and with every
// value from outside bound as an argument.
//
// Exchanges appear when their outcome is stored; one that is still open can be shown, but is not found by a search.
package query
