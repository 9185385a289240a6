package podman

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// tripFunc answers a request.
type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A question is asked again when its connection broke, once; what changes
// something is not, and neither is what failed in another way.
func TestBrokenConnections(t *testing.T) {
	for _, tc := range []struct {
		method string
		err    error
		sent   int
	}{
		{http.MethodGet, syscall.ECONNRESET, 2},
		{http.MethodGet, io.EOF, 2},
		{http.MethodGet, errors.New("another"), 1},
		{http.MethodPost, syscall.ECONNRESET, 1},
		{http.MethodDelete, io.EOF, 1},
	} {
		sent := 0
		trip := roundTripper{tripFunc(func(*http.Request) (*http.Response, error) {
			sent++
			return nil, tc.err
		})}
		req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://d/", strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := trip.RoundTrip(req); !errors.Is(err, tc.err) {
			t.Errorf("%s %v: %v, %v", tc.method, tc.err, resp, err)
		}
		if sent != tc.sent {
			t.Errorf("%s %v: sent %d times, want %d", tc.method, tc.err, sent, tc.sent)
		}
	}
}
