package podman

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/specgen"
	"realm.dev/container"
	"realm.dev/contract"
)

// createBudget bounds one creation; it takes some 10 ms.
const createBudget = 30 * time.Second

// Create makes the container of s.
func (e *Engine) Create(ctx context.Context, s *container.Spec) (string, error) {
	spec, _, err := e.spec(ctx, s, e.log)
	if err != nil {
		return "", err
	}
	release, err := acquire(ctx, e.creates)
	if err != nil {
		return "", err
	}
	defer release()
	// A create that is cut off goes on in the service: the caller could not know
	// what to remove. It is waited for, however short the caller's patience is.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createBudget)
	defer cancel()
	k, end := e.conn.call(ctx)
	defer end()
	answer, err := containers.CreateWithSpec(k.ctx, spec, nil)
	if err != nil {
		return e.existing(ctx, s, k, err)
	}
	for _, w := range answer.Warnings {
		e.log.Debug("podman warns about the container", "session", s.SessionID, "warning", w)
	}
	return answer.ID, nil
}

// spec is what Podman is asked for.
func (e *Engine) spec(ctx context.Context, s *container.Spec, log *slog.Logger) (*specgen.SpecGenerator, *facts, error) {
	f, err := e.learn(ctx)
	if err != nil {
		return nil, nil, err
	}
	full, err := withSubmounts(s, f, log)
	if err != nil {
		return nil, nil, err
	}
	g, err := buildSpec(full, f)
	return g, f, err
}

// existing finds out why a create failed: a container of the same name that is
// this session's is the one that was asked for. Podman has no status of its own
// for that.
func (e *Engine) existing(ctx context.Context, s *container.Spec, k *call, createErr error) (string, error) {
	if k.transport != nil {
		return "", k.fail("create the container", createErr)
	}
	st, err := e.Inspect(ctx, s.Name())
	switch {
	case contract.CodeOf(err) == contract.SessionNotFound && status(createErr) == http.StatusNotFound:
		return "", contract.Errorf(contract.ImageUnavailable, "the engine does not have the image").WithCause(createErr)
	case contract.CodeOf(err) == contract.SessionNotFound:
		return "", k.fail("create the container", createErr)
	case err != nil:
		return "", err
	case st.Labels[container.LabelRealm] != s.RealmID || st.Labels[container.LabelSession] != s.SessionID:
		return "", contract.Errorf(contract.PodmanUnavailable, "a container that is not realm's has the session's name").WithCause(createErr)
	}
	return st.ID, nil
}

// Init makes the container's namespaces and mounts.
func (e *Engine) Init(ctx context.Context, id string) error {
	f, err := e.learn(ctx)
	if err != nil {
		return err
	}
	k, end := e.conn.call(ctx)
	defer end()
	initErr := containers.ContainerInit(k.ctx, id, nil)
	if k.transport != nil || initErr == nil && f.enforces("pids") {
		return k.fail("set up the container", initErr)
	}
	data, err := e.inspect(ctx, id)
	if err != nil {
		return err
	}
	st := statusOf(data)
	// Podman refuses to do it twice.
	if initErr != nil && st.State != container.Initialized && st.State != container.Running {
		return k.fail("set up the container", initErr)
	}
	if f.enforces("pids") {
		return nil
	}
	limit, err := strconv.ParseUint(st.Labels[pidsLabel], 10, 63)
	if err != nil || st.Pid <= 0 {
		return contract.Errorf(contract.IsolationUnproven, "the container does not say how many processes it may have").WithCause(err)
	}
	return boundProcesses(st.Pid, limit)
}

// Start lets PID 1 run.
func (e *Engine) Start(ctx context.Context, id string) error {
	f, err := e.learn(ctx)
	if err != nil {
		return err
	}
	if !f.enforces("pids") {
		// Podman would set up and start in one step, with no room for Init's part.
		st, err := e.Inspect(ctx, id)
		if err == nil && st.State == container.Created {
			err = e.Init(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	k, end := e.conn.call(ctx)
	defer end()
	return k.fail("start the container", containers.Start(k.ctx, id, nil))
}

// Wait blocks until the container has ended.
func (e *Engine) Wait(ctx context.Context, id string) (container.ExitStatus, error) {
	k, end := e.conn.call(ctx)
	defer end()
	ended := []string{define.ContainerStateExited.String(), define.ContainerStateStopped.String()}
	code, err := containers.Wait(k.ctx, id, new(containers.WaitOptions).WithConditions(ended))
	if err != nil {
		return container.ExitStatus{}, k.fail("wait for the container", err)
	}
	var exit container.ExitStatus
	if code >= 0 {
		exit.Code = ptr(int(code))
	}
	// The container may be gone by now; when it ended is then not known.
	if data, err := e.inspect(ctx, id); err == nil && data.State != nil {
		exit.At = data.State.FinishedAt
	}
	return exit, nil
}

// Signal sends sig to PID 1.
func (e *Engine) Signal(ctx context.Context, id string, sig int) error {
	k, end := e.conn.call(ctx)
	defer end()
	err := containers.Kill(k.ctx, id, new(containers.KillOptions).WithSignal(strconv.Itoa(sig)))
	if status(err) == http.StatusConflict {
		return contract.Errorf(contract.SessionState, "the container does not run").WithCause(err)
	}
	return k.fail("signal the container", err)
}

// Remove kills and removes the container and its volumes at once.
func (e *Engine) Remove(ctx context.Context, id string) error {
	release, err := acquire(ctx, e.removals)
	if err != nil {
		return err
	}
	defer release()
	k, end := e.conn.call(ctx)
	defer end()
	options := new(containers.RemoveOptions).WithForce(true).WithIgnore(true).WithTimeout(0).WithVolumes(true)
	reports, err := containers.Remove(k.ctx, id, options)
	for _, r := range reports {
		err = errors.Join(err, r.Err)
	}
	if err == nil || status(err) == http.StatusNotFound {
		return nil
	}
	if k.transport == nil {
		// Two removals at once: the other one may have been first.
		if _, inspectErr := e.Inspect(ctx, id); contract.CodeOf(inspectErr) == contract.SessionNotFound {
			return nil
		}
	}
	return k.fail("remove the container", err)
}
