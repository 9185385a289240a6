// Package cleanup undoes acquired things in reverse order.
package cleanup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Budget bounds one whole Run: a wait without end would keep a dead session alive.
const Budget = 20 * time.Second

// Stack holds what was acquired. The zero value is ready; it is safe for
// concurrent use.
type Stack struct {
	// Before is told each name before it is undone; nil: nobody.
	Before func(name string)

	mu    sync.Mutex
	items []item
}

type item struct {
	name string
	undo func(context.Context) error
}

// Add registers how to undo something that has just been acquired. The name
// goes in front of the error of an undo that failed.
func (s *Stack) Add(name string, undo func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, item{name, undo})
}

// Run undoes everything, last first, each thing once; one failure does not keep
// the rest from being undone. It is not cut short by the end of ctx, only by
// Budget, since what is undone here is undone nowhere else.
func (s *Stack) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Budget)
	defer cancel()
	var errs []error
	for {
		it, ok := s.pop()
		if !ok {
			return errors.Join(errs...)
		}
		if s.Before != nil {
			s.Before(it.name)
		}
		if err := it.undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", it.name, err))
		}
	}
}

func (s *Stack) pop() (item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.items) == 0 {
		return item{}, false
	}
	it := s.items[len(s.items)-1]
	s.items = s.items[:len(s.items)-1]
	return it, true
}
