// Package chaintest holds the conformance fixtures of the interceptor working group and the
// interceptors that they name, for tests of everything that runs or serves interceptors.
//
// The fixtures are in testdata/conformance; SOURCE.md there says where they come from. Their secrets
// are made up.
package chaintest
