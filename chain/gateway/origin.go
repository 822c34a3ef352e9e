package gateway

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// checkOrigin refuses requests that a web page could have made a browser send to a loopback
// listener under a foreign name (DNS rebinding). On other listeners the backend decides.
func checkOrigin(r *http.Request, allowed []string) error {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(local.String()) {
		return nil
	}
	if !isLoopback(r.Host) && !slices.Contains(allowed, hostName(r.Host)) {
		return errors.New("Host header names another machine") //nolint:staticcheck // the name of a header
	}
	origin := r.Header.Get("Origin")
	if origin == "" || origin == "null" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || (!isLoopback(u.Host) && !slices.Contains(allowed, hostName(u.Host))) {
		return errors.New("Origin header names another machine") //nolint:staticcheck // the name of a header
	}
	return nil
}

func hostName(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

func isLoopback(hostport string) bool {
	host := hostName(hostport)
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
