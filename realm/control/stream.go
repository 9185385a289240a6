package control

import (
	"net/http"
	"time"

	"realm.dev/contract"
)

// ndjson writes a response of one document a line. A client that does not
// take a line within the timeout has its connection cut by net/http, which
// also ends the request's context.
type ndjson struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func (s *Server) stream(w http.ResponseWriter) *ndjson {
	setHeader(w.Header(), typeNDJSON)
	return &ndjson{w: w, control: http.NewResponseController(w), timeout: s.opts.WriteTimeout}
}

// send writes one line; it reaches the client with the next flush at latest.
func send[T contract.Document](n *ndjson, document T) error {
	b, err := contract.Encode(document)
	if err != nil {
		return err
	}
	if err := n.control.SetWriteDeadline(time.Now().Add(n.timeout)); err != nil {
		return err
	}
	_, err = n.w.Write(append(b, '\n'))
	return err
}

func (n *ndjson) flush() error { return n.control.Flush() }
