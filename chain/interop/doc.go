// Package interop proves that gateway, runner and interceptor servers work with peers that are not
// written here, and over every pair of transports: it holds tests only.
//
// Everything in it is real: the gateway with its plan and a recorder, child processes, HTTP servers,
// go-sdk and JavaScript peers. Scripted peers speak raw bytes, because no library would send what
// the tests need.
package interop
