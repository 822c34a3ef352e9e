package chain

import "errors"

// ErrLost is returned for an invocation whose interceptor server is not connected. The server is being reconnected;
// whether the message passes is decided by the interceptor's failOpen.
var ErrLost = errors.New("the interceptor server is lost and is being reconnected")

// ErrPanic is returned for an invocation whose in-process interceptor panicked.
var ErrPanic = errors.New("the interceptor panicked")

// ErrConfig is returned when the configuration of a plan cannot be put in force; the text says what to change.
var ErrConfig = errors.New("interceptor configuration")

// ErrDiscovery is returned when an interceptor server cannot be listed; the text names the server and the reason.
var ErrDiscovery = errors.New("interceptor discovery")

// ErrList is returned when an answer to interceptors/list is not one; the text says where.
var ErrList = errors.New("malformed interceptor list")

// ErrResult is returned when an answer to interceptor/invoke is not a result of that call; the text says why.
var ErrResult = errors.New("malformed result")
