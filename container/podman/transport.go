package podman

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/errorhandling"
)

// call is one request on its way through the library, which keeps the connection
// in a context of its own: ctx is a child of that one and ends with the caller's.
type call struct {
	caller    context.Context
	ctx       context.Context
	transport error // why no answer came
}

type callKey struct{}

// call begins a request for the caller's ctx. The caller must call end.
func (c *connection) call(ctx context.Context) (k *call, end func()) {
	k = &call{caller: ctx}
	child, cancel := context.WithCancelCause(context.WithValue(c.ctx, callKey{}, k))
	k.ctx = child
	if cause := context.Cause(ctx); cause != nil {
		cancel(cause) // now: AfterFunc runs a little later
	}
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return k, func() {
		stop()
		cancel(nil)
	}
}

// statusNoAnswer is the status of the answer that roundTripper makes up. No
// server sends it.
const statusNoAnswer = 599

// roundTripper sends each request once, but a question (GET) again when the
// connection broke: a service that was just ending takes one more connection now
// and then, and the next one finds or starts the service anew. The library
// repeats a request three times when the transport fails, POST too, and sleeps
// between without looking at the context; so a failure is handed to it as an
// answer, and the error kept beside it.
type roundTripper struct{ base http.RoundTripper }

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.base.RoundTrip(req)
	if err != nil && req.Method == http.MethodGet && req.Context().Err() == nil && broken(err) {
		resp, err = r.base.RoundTrip(req)
	}
	k, ok := req.Context().Value(callKey{}).(*call)
	if err == nil || !ok {
		return resp, err
	}
	k.transport = err
	body, err := json.Marshal(errorhandling.ErrorModel{ResponseCode: statusNoAnswer})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: statusNoAnswer, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

// broken reports whether a connection ended under a request.
func broken(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// idleConns end before the service's own idle timer does.
const idleConns = 5 * time.Second

// newClient makes the HTTP client of a connection. dial is asked for each new
// connection to the engine's socket.
func newClient(dial func(context.Context) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: roundTripper{&http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression: true, IdleConnTimeout: idleConns, MaxIdleConnsPerHost: 4,
	}}}
}

// library makes the library's context around our client.
func library(ctx context.Context, socket string, client *http.Client) (context.Context, error) {
	// The library asks the engine for its version here, over a client of its own.
	libCtx, err := bindings.NewConnection(ctx, "unix://"+socket)
	if err != nil {
		return nil, err
	}
	conn, err := bindings.GetClient(libCtx)
	if err != nil {
		return nil, err
	}
	conn.Client.CloseIdleConnections()
	conn.Client = client
	return libCtx, nil
}
