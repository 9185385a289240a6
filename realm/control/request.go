package control

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"realm.dev/contract"
)

const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
)

// screen refuses what no client of ours sends, before a route is looked for.
// The Host header is not looked at: a unix socket has one host, and nothing
// is routed by it.
func screen(r *http.Request) *contract.Error {
	switch {
	case len(r.Header["Origin"]) > 0:
		return contract.Errorf(contract.PermissionDenied, "a request with an Origin header comes from a web page")
	case r.URL.Host != "" || r.URL.Opaque != "" || !strings.HasPrefix(r.URL.Path, "/"):
		return contract.Errorf(contract.SchemaInvalid, "the request target must be a path")
	case len(r.TransferEncoding) > 0:
		return contract.Errorf(contract.SchemaInvalid, "a chunked body is refused").WithHint("send a Content-Length")
	case len(r.Header["Content-Encoding"]) > 0:
		return contract.Errorf(contract.SchemaInvalid, "an encoded body is refused").WithHint("send it as it is, without Content-Encoding")
	case r.URL.RawQuery != "":
		return contract.Errorf(contract.SchemaInvalid, "this request takes no query")
	case r.URL.RawPath != "" || path.Clean(r.URL.Path) != r.URL.Path:
		return noRoute()
	}
	return nil
}

func noRoute() *contract.Error {
	return contract.Errorf(contract.PathNotFound, "the control socket has no such resource")
}

// body reads the whole JSON body within the size and time limits.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, given := params["charset"]
	if err != nil || kind != typeJSON || given && !strings.EqualFold(charset, "utf-8") {
		return nil, contract.Errorf(contract.SchemaInvalid, "the body must be %s", typeJSON).
			WithHint("send the header Content-Type: %s", typeJSON)
	}
	if r.ContentLength > s.opts.MaxBodyBytes {
		return nil, s.tooLarge()
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(s.opts.BodyTimeout)); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBodyBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, s.tooLarge()
	}
	if err != nil {
		return nil, contract.Errorf(contract.SchemaInvalid, "the body did not arrive whole and in time").WithCause(err)
	}
	// From here on net/http reads to learn that the client went away. That has
	// no deadline, which it sees to by itself, but does not promise.
	return b, control.SetReadDeadline(time.Time{})
}

func (s *Server) tooLarge() *contract.Error {
	return contract.Errorf(contract.LimitExceeded, "the body has more than %d bytes", s.opts.MaxBodyBytes)
}

// wantsStream reports whether the client accepts NDJSON.
func wantsStream(r *http.Request) bool {
	if r.Method == http.MethodHead {
		return false
	}
	for _, header := range r.Header["Accept"] {
		for accept := range strings.SplitSeq(header, ",") {
			if kind, _, err := mime.ParseMediaType(accept); err == nil && kind == typeNDJSON {
				return true
			}
		}
	}
	return false
}
