package cleanup_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"realm.dev/internal/cleanup"
)

func TestRunUndoesInReverseOnceAndAll(t *testing.T) {
	var got []string
	var s cleanup.Stack
	boom := errors.New("boom")
	for _, name := range []string{"a", "b", "c"} {
		s.Add(name, func(ctx context.Context) error {
			got = append(got, name)
			if ctx.Err() != nil {
				t.Errorf("%s: undone under a context that had ended", name)
			}
			if name == "b" {
				return boom
			}
			return nil
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Run(ctx)
	if !errors.Is(err, boom) || err.Error() != "b: boom" {
		t.Errorf("Run = %v, want b: boom", err)
	}
	if err := s.Run(ctx); err != nil {
		t.Errorf("second Run = %v, want nil", err)
	}
	if want := []string{"c", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("undone %v, want %v", got, want)
	}
}
