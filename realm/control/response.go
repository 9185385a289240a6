package control

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"realm.dev/contract"
)

// setHeader sets what every response has.
func setHeader(h http.Header, kind string) {
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

// reply answers with one document. That it cannot be encoded is our defect,
// whatever the encoder says.
func reply[T contract.Document](s *Server, w http.ResponseWriter, document T) error {
	b, err := contract.Encode(document)
	if err != nil {
		return contract.Errorf(contract.Internal, "the answer does not match its schema").WithCause(err)
	}
	s.write(w, http.StatusOK, b)
	return nil
}

// write writes a whole response.
func (s *Server) write(w http.ResponseWriter, status int, b []byte) {
	setHeader(w.Header(), typeJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)+1))
	// Nothing can be answered to a client that does not take the answer.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout))
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// encodeError writes e as JSON. It has only strings and numbers, so it always
// can be written.
func encodeError(e *contract.Error) []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic("control: an error cannot be written as JSON")
	}
	return b
}

// fail answers with an error of the catalogue.
func (s *Server) fail(w http.ResponseWriter, e *contract.Error) {
	if e.Code == contract.Internal {
		s.opts.Logger.Error("control request failed", "err", e.Cause)
	}
	s.write(w, e.Code.HTTP(), encodeError(e))
}

// writeRaw writes the response for e where there is no request yet.
func writeRaw(w io.Writer, e *contract.Error) {
	b := encodeError(e)
	status := e.Code.HTTP()
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), typeJSON, len(b)+1, b)
}
