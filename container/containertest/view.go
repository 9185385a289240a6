package containertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"realm.dev/container"
)

func (s suite) list(t *testing.T) {
	a, specA := s.create(t)
	b, specB := s.create(t)
	must(t, s.e.Start(t.Context(), b))
	ids := func(labels map[string]string) []string {
		list, err := s.e.List(t.Context(), labels)
		must(t, err)
		var out []string
		for _, st := range list {
			if st.ID == a || st.ID == b {
				out = append(out, st.ID)
			}
		}
		slices.Sort(out)
		return out
	}
	both := []string{a, b}
	slices.Sort(both)
	for name, tt := range map[string]struct {
		labels map[string]string
		want   []string
	}{
		"one session": {map[string]string{container.LabelSession: specA.SessionID}, []string{a}},
		"any session": {map[string]string{container.LabelSession: ""}, both},
		"one realm":   {map[string]string{container.LabelRealm: specA.RealmID}, both},
		"both labels": {map[string]string{container.LabelRealm: specB.RealmID, container.LabelSession: specB.SessionID}, []string{b}},
		"none":        {map[string]string{container.LabelSession: specA.SessionID + "x"}, nil},
		"no such":     {map[string]string{container.LabelRealm + ".not": ""}, nil},
	} {
		if diff := cmp.Diff(tt.want, ids(tt.labels)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	list, err := s.e.List(t.Context(), specB.Labels())
	must(t, err)
	if len(list) != 1 || list[0].State != container.Running || list[0].Pid <= 0 || list[0].Name != specB.Name() {
		t.Errorf("got %+v", list)
	}
}

func (s suite) events(t *testing.T) {
	id, spec := s.create(t)
	other, _ := s.create(t)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := s.e.Events(ctx, map[string]string{container.LabelSession: spec.SessionID})
	must(t, err)
	must(t, s.e.Start(t.Context(), other))
	must(t, s.e.Start(t.Context(), id))
	must(t, s.e.Remove(t.Context(), id))
	timeout := time.After(patience)
	var actions []string
	for len(actions) < 3 {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatalf("the stream ended after %v", actions)
			}
			if e.ID != id || e.At.IsZero() || e.Labels[container.LabelSession] != spec.SessionID {
				t.Errorf("got %+v", e)
			}
			actions = append(actions, e.Action)
		case <-timeout:
			t.Fatalf("only %v happened", actions)
		}
	}
	if diff := cmp.Diff([]string{"start", "died", "remove"}, actions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	cancel()
	for {
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
		case <-timeout:
			t.Fatal("the stream did not end with its context")
		}
	}
}
