package podman

import (
	"context"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/system"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"realm.dev/container"
)

// Inspect reads the container's state.
func (e *Engine) Inspect(ctx context.Context, id string) (container.Status, error) {
	data, err := e.inspect(ctx, id)
	if err != nil {
		return container.Status{}, err
	}
	return statusOf(data), nil
}

func (e *Engine) inspect(ctx context.Context, id string) (*define.InspectContainerData, error) {
	k, end := e.conn.call(ctx)
	defer end()
	data, err := containers.Inspect(k.ctx, id, nil)
	return data, k.fail("inspect the container", err)
}

func statusOf(data *define.InspectContainerData) container.Status {
	st := container.Status{ID: data.ID, Name: data.Name}
	if data.Config != nil {
		st.Labels = data.Config.Labels
	}
	if s := data.State; s != nil {
		st.State = stateOf(s.Status)
		st.Pid, st.StartedAt, st.CgroupPath = s.Pid, s.StartedAt, s.CgroupPath
		if st.State == container.Exited {
			st.ExitCode = ptr(int(s.ExitCode))
		}
	}
	return st
}

// stateOf folds Podman's states into ours. A stopped container is one whose
// clean-up has not run yet.
func stateOf(name string) container.State {
	switch s := container.State(name); s {
	case container.Created, container.Initialized, container.Running, container.Paused, container.Exited:
		return s
	case "stopping":
		return container.Running
	}
	return container.Exited
}

// List returns the containers that carry all labels.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]container.Status, error) {
	k, end := e.conn.call(ctx)
	defer end()
	options := new(containers.ListOptions).WithAll(true).WithFilters(map[string][]string{"label": labelFilter(labels)})
	found, err := containers.List(k.ctx, options)
	if err != nil {
		return nil, k.fail("list containers", err)
	}
	list := make([]container.Status, 0, len(found))
	for _, c := range found {
		list = append(list, listed(c))
	}
	return list, nil
}

func listed(c entities.ListContainer) container.Status {
	st := container.Status{ID: c.ID, Labels: c.Labels, State: stateOf(c.State), Pid: c.Pid}
	if len(c.Names) > 0 {
		st.Name = c.Names[0]
	}
	if c.StartedAt > 0 {
		st.StartedAt = time.Unix(c.StartedAt, 0)
	}
	if st.State == container.Exited {
		st.ExitCode = ptr(int(c.ExitCode))
	}
	return st
}

func labelFilter(labels map[string]string) []string {
	var filter []string
	for name, value := range labels {
		if value != "" {
			name += "=" + value
		}
		filter = append(filter, name)
	}
	return filter
}

// actions are the events that realm knows, by Podman's names.
var actions = map[string]string{
	"start": "start", "died": "died", "remove": "remove", "pause": "pause", "unpause": "unpause",
}

// Events streams what happens to containers that carry all labels.
func (e *Engine) Events(ctx context.Context, labels map[string]string) (<-chan container.Event, error) {
	k, end := e.conn.call(ctx)
	from := make(chan entities.Event)
	filters := map[string][]string{"type": {"container"}}
	if f := labelFilter(labels); len(f) > 0 {
		filters["label"] = f
	}
	if err := system.Events(k.ctx, from, nil, new(system.EventsOptions).WithStream(true).WithFilters(filters)); err != nil {
		end()
		return nil, k.fail("tell events", err)
	}
	to := make(chan container.Event)
	go func() {
		defer end()
		defer close(to)
		// The library closes its channel when the body ends, which it does with
		// our context; until then it must be able to send.
		for event := range from {
			if ev, ok := eventOf(event); ok {
				select {
				case to <- ev:
				case <-k.ctx.Done():
				}
			}
		}
	}()
	return to, nil
}

func eventOf(e entities.Event) (container.Event, bool) {
	action, ok := actions[string(e.Action)]
	return container.Event{
		ID: e.Actor.ID, Labels: e.Actor.Attributes, Action: action, At: time.Unix(e.Time, e.TimeNano%int64(time.Second)),
	}, ok
}
