// Package client talks to a session's control socket. It knows nothing of
// realm but the documents of package contract, so that any program can import
// it.
//
// Every error is a *[contract.Error]: what the session answered, or
// SESSION_NOT_FOUND when nobody listens, PATH_REFUSED when somebody else does,
// SESSION_LOST when the connection ended before the answer.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"realm.dev/contract"
)

const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"

	dialTimeout   = 5 * time.Second
	maxErrorBytes = 1 << 20
)

// Client is a client of one session. It is safe for concurrent use and holds
// no connection between requests.
type Client struct {
	path string
	http *http.Client
}

// Dial returns a client of the socket at path, which must be a socket of this
// user or of root. Each request connects anew and checks whom it talks to.
func Dial(path string) (*Client, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, notReached(err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, contract.Errorf(contract.PathRefused, "control socket: this is no socket")
	case !trusted(info.Sys().(*syscall.Stat_t).Uid):
		return nil, contract.Errorf(contract.PathRefused, "control socket: it belongs to another user")
	}
	c := &Client{path: path}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext:            c.dial,
			DisableCompression:     true,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// trusted reports whether uid may serve our sessions: we, or root.
func trusted(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// dial connects and asks the kernel who listens, before anything is sent.
func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, notReached(err)
	}
	if uid, err := peerUID(conn.(*net.UnixConn)); err != nil || !trusted(uid) {
		conn.Close()
		return nil, contract.Errorf(contract.PathRefused, "control socket: another user listens on it").WithCause(err)
	}
	return conn, nil
}

func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var (
		cred    *syscall.Ucred
		sockErr error
	)
	err = raw.Control(func(fd uintptr) {
		cred, sockErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, sockErr); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// notReached tells a session that is gone from one that may not be reached.
func notReached(cause error) *contract.Error {
	for _, gone := range []error{fs.ErrNotExist, syscall.ECONNREFUSED, syscall.ENOTDIR} {
		if errors.Is(cause, gone) {
			return contract.Errorf(contract.SessionNotFound, "control socket: nobody listens on it").WithCause(cause)
		}
	}
	if errors.Is(cause, fs.ErrPermission) {
		return contract.Errorf(contract.PathRefused, "control socket: this user may not use it").WithCause(cause)
	}
	return contract.Errorf(contract.SessionLost, "control socket: no connection").WithCause(cause)
}

// request is one request to the session.
type request struct {
	method, path string
	body         []byte // JSON; nil: none
	key          string // Idempotency-Key
	accept       string
}

// do sends r and returns the body of a response of status 200, which the
// caller closes.
func (c *Client) do(ctx context.Context, r request) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, "http://realm"+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, contract.Errorf(contract.Internal, "client: no request").WithCause(err)
	}
	req.Header.Set("Accept", r.accept)
	if r.body != nil {
		req.Header.Set("Content-Type", typeJSON)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, lost(ctx, err)
	}
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), r.accept) {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, readError(resp)
}

// readError returns the error of the catalogue that resp carries.
func readError(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	if err != nil {
		return contract.Errorf(contract.SessionLost, "control socket: the answer was cut short").WithCause(err)
	}
	var e contract.Error
	if err := json.Unmarshal(b, &e); err != nil || !e.Code.Known() {
		return contract.Errorf(contract.Internal, "control socket: status %d without an error of the catalogue", resp.StatusCode)
	}
	return &e
}

// lost is the error for a request without an answer.
func lost(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*contract.Error](err); ok {
		return e
	}
	if ctx.Err() != nil {
		return contract.Errorf(contract.SessionLost, "control socket: the caller stopped waiting for the answer").WithCause(context.Cause(ctx))
	}
	return contract.Errorf(contract.SessionLost, "control socket: the connection ended before the answer").WithCause(err)
}
