package podman

import (
	"context"
	"errors"
	"net/http"

	"github.com/containers/podman/v5/pkg/errorhandling"
	"realm.dev/contract"
)

// fail turns an error of the library into one of ours, by its type alone: what
// the engine writes may hold values that must not leave us, and stays in the
// cause. what is what was being done, "create the container".
func (c *call) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	if c.transport != nil {
		if cause := context.Cause(c.caller); cause != nil {
			return contract.Errorf(contract.PodmanUnavailable, "the engine had no time left to %s", what).WithCause(cause)
		}
		return contract.Errorf(contract.PodmanUnavailable, "the engine did not answer when asked to %s", what).
			WithCause(c.transport).WithHint("run realm doctor")
	}
	if status(err) == http.StatusNotFound {
		return contract.Errorf(contract.SessionNotFound, "the engine has no such container").WithCause(err)
	}
	return contract.Errorf(contract.PodmanUnavailable, "the engine could not %s", what).WithCause(err)
}

// status is the HTTP status that the engine answered with; 0 when err is not an
// answer of the engine.
func status(err error) int {
	if model, ok := errors.AsType[*errorhandling.ErrorModel](err); ok {
		return model.ResponseCode
	}
	if model, ok := errors.AsType[errorhandling.ErrorModel](err); ok {
		return model.ResponseCode
	}
	return 0
}
