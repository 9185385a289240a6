package control

import (
	"net/http"
	"time"

	"realm.dev/contract"
)

// getRecord answers with the record, or with the current one and then one for
// each transition until the session has ended.
func (s *Server) getRecord(w http.ResponseWriter, r *http.Request) error {
	if !wantsStream(r) {
		return reply(s, w, s.session.Record())
	}
	out := s.stream(w)
	for record := range s.session.Watch(r.Context()) {
		err := send(out, record)
		if err == nil {
			err = out.flush()
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the client must not take this for the end
		}
	}
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (s *Server) getSession(w http.ResponseWriter, _ *http.Request) error {
	return reply(s, w, s.session.Detail())
}

// postStop stops the session. The body is empty, or a stop call. A client
// that goes away meanwhile does not undo it.
func (s *Server) postStop(w http.ResponseWriter, r *http.Request) error {
	var grace time.Duration
	if r.ContentLength != 0 {
		call, err := s.toolCall(w, r)
		if err != nil {
			return err
		}
		if call.Stop == nil {
			return contract.Errorf(contract.SchemaInvalid, "the body must be empty or a stop call")
		}
		grace = time.Duration(call.Stop.GraceMs) * time.Millisecond
	}
	record, err := s.session.Stop(s.running, grace)
	if err != nil {
		return err
	}
	return reply(s, w, record)
}
