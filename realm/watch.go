package realm

import (
	"context"
	"errors"
	"strings"
	"time"

	"realm.dev/contract"
	"realm.dev/realm/workspace"
)

// The conditions that a session's detail can carry.
const (
	// ProtectionLost: a protected mount could not be put back in time.
	ProtectionLost = "ProtectionLost"
	// HostExecutedFiles: the session made files that tools on the host execute.
	HostExecutedFiles = "HostExecutedFiles"
)

// watchMounts begins to watch the names that mounts protect. A rename over one of
// them on the host detaches its mount inside without a word; it is put back at
// once. When it cannot be, the session ends: it must not run unprotected.
func (s *Session) watchMounts(b *box) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.mgr.ctx))
	lost, err := b.plan.Watch(ctx)
	if err != nil {
		cancel()
		return contract.Errorf(contract.IsolationUnproven, "the protected names cannot be watched").WithCause(err).
			WithHint("raise fs.inotify.max_user_instances and max_user_watches")
	}
	// The kernel takes some 15 ms to let inotify marks go: the container is
	// removed meanwhile, and only what comes after waits for it.
	b.watched = make(chan struct{})
	b.undo.Add("watch", func(context.Context) error {
		cancel()
		return nil
	})
	go func() {
		defer close(b.watched)
		for l := range lost {
			s.rebind(ctx, b, l)
		}
	}()
	return nil
}

// rebind puts one lost mount back.
func (s *Session) rebind(ctx context.Context, b *box, l workspace.Lost) {
	watch := ctx
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := b.plan.Rebind(ctx, b.initPID, l)
	if err == nil && !r.Tampered {
		s.log.Info("a protected mount was put back after a change on the host")
		if r.Doubt {
			s.hold(inDoubt(r.Bound))
		}
		return
	}
	if watch.Err() != nil {
		return // the session is ending
	}
	s.log.Error("a protected mount is lost", "err", err, "cause", causes(err), "tampered", r.Tampered)
	message := "a protected name was replaced on the host and its mount could not be put back"
	if err == nil {
		message = "a protected file was changed while its mount was lost"
	}
	s.addConditions([]contract.Condition{{Type: ProtectionLost, Status: true, Reason: "Rebind", Message: message, Since: time.Now().UTC()}})
	s.report(report{fact: lost, cause: contract.Errorf(contract.IsolationUnproven, "%s", message).WithCause(err)})
}

// causes is the text of what lies below an error, which its own text leaves out.
func causes(err error) string {
	var all []string
	for err = errors.Unwrap(err); err != nil; err = errors.Unwrap(err) {
		all = append(all, err.Error())
	}
	return strings.Join(all, ": ")
}

// addConditions sets conditions, replacing those of the same type.
func (s *Session) addConditions(list []contract.Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range list {
		kept := s.detail.Conditions[:0:0]
		for _, old := range s.detail.Conditions {
			if old.Type != c.Type {
				kept = append(kept, old)
			}
		}
		s.detail.Conditions = append(kept, c)
	}
}

// inspectWorkspace looks, with the container gone, at what the session left in
// the workspace: files that host tools would execute are reported, and a
// repository that was made inside is cleaned and published.
func (s *Session) inspectWorkspace(ctx context.Context, b *box) {
	if b.containerID != "" && b.plan.Workspace.Write {
		found, err := s.tree.HostExecuted(ctx, b.began)
		if len(found) > 0 || err != nil {
			c := contract.Condition{
				Type: HostExecutedFiles, Status: len(found) > 0, Since: time.Now().UTC(),
				Reason: "Found", Message: "the session made repositories that git on this host would take configuration from",
			}
			if err != nil {
				c.Reason = "ScanCutShort"
			}
			s.addConditions([]contract.Condition{c})
		}
		s.hold(hostExecuted(found))
	}
	held, err := b.plan.Publish(ctx)
	if err != nil {
		s.log.Error("the repository made inside could not be published", "err", err)
		s.addConditions([]contract.Condition{{
			Type: "PublishFailed", Status: true, Reason: "Publish",
			Message: "the repository made inside stays in quarantine", Since: time.Now().UTC(),
		}})
	}
	s.hold(held)
}

// inDoubt reports names that were replaced more than once while their mount was
// lost: the host's change and the session's cannot be told apart then.
func inDoubt(paths []string) []contract.HeldBack {
	return held(paths, "reported: replaced while its mount was lost; look at it before host tools use it")
}

func hostExecuted(paths []string) []contract.HeldBack {
	return held(paths, "reported: git on this host would execute what it configures")
}

func held(paths []string, reason string) []contract.HeldBack {
	var out []contract.HeldBack
	for _, p := range paths {
		out = append(out, contract.HeldBack{Path: p, Reason: reason})
	}
	return out
}

func (s *Session) hold(list []contract.HeldBack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detail.HeldBack = append(s.detail.HeldBack, list...)
}
