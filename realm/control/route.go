package control

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"realm.dev/contract"
)

// answer handles one request: it writes the whole response and returns nil,
// or has written nothing and returns what to answer instead.
type answer func(w http.ResponseWriter, r *http.Request) error

// resource is what can be done with one path, by method.
type resource map[string]answer

// resources is the whole interface.
func (s *Server) resources() map[string]resource {
	return map[string]resource{
		"/v1/record":  {http.MethodGet: s.getRecord},
		"/v1/session": {http.MethodGet: s.getSession},
		"/v1/calls":   {http.MethodPost: s.postCall},
		"/v1/stop":    {http.MethodPost: s.postStop},
	}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for path, res := range s.resources() {
		mux.Handle(path, s.serve(res.answer))
	}
	mux.Handle("/", s.serve(func(http.ResponseWriter, *http.Request) error { return noRoute() }))
	// Screening comes first: ServeMux answers an unclean path by itself.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handlers.Add(1)
		defer s.handlers.Done()
		if refusal := screen(r); refusal != nil {
			s.fail(w, refusal)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// answer picks the method. HEAD is GET, of which net/http leaves the body out.
func (res resource) answer(w http.ResponseWriter, r *http.Request) error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if handle, ok := res[method]; ok {
		return handle(w, r)
	}
	w.Header().Set("Allow", res.allow())
	if method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return contract.Errorf(contract.SchemaInvalid, "this resource has no such method")
}

func (res resource) allow() string {
	methods := slices.Collect(maps.Keys(res))
	if _, ok := res[http.MethodGet]; ok {
		methods = append(methods, http.MethodHead)
	}
	return strings.Join(slices.Sorted(slices.Values(append(methods, http.MethodOptions))), ", ")
}

// serve turns an answer into a handler that writes its error, a panic's too.
func (s *Server) serve(handle answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			// The value of a panic may hold anything, so it is not logged.
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				s.opts.Logger.Error("control request panicked")
				if w.Header().Get("Content-Type") != "" {
					panic(http.ErrAbortHandler) // an answer has begun
				}
				s.fail(w, contract.Errorf(contract.Internal, "the request was not finished"))
			}
		}()
		if err := handle(w, r); err != nil {
			s.fail(w, contract.AsError(err))
		}
	})
}
