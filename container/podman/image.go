package podman

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	"github.com/containers/podman/v5/pkg/bindings/images"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/distribution/reference"
	"realm.dev/container"
	"realm.dev/contract"
)

// EnsureImage makes ref available: the engine's own copy when it has one, else
// the registry's. The ID that it returns pins the content.
func (e *Engine) EnsureImage(ctx context.Context, ref string, progress func(container.Progress)) (container.Image, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return container.Image{}, contract.Errorf(contract.ImageUnavailable, "the image is not an image reference").WithCause(err)
	}
	image, err := e.image(ctx, ref)
	if contract.CodeOf(err) != contract.ImageUnavailable {
		return image, err
	}
	if err := e.pull(ctx, named, progress); err != nil {
		return container.Image{}, err
	}
	return e.image(ctx, named.String())
}

// image looks ref up in the engine's store. IMAGE_UNAVAILABLE: it is not there.
func (e *Engine) image(ctx context.Context, ref string) (container.Image, error) {
	k, end := e.conn.call(ctx)
	defer end()
	found, err := images.GetImage(k.ctx, ref, nil)
	if status(err) == http.StatusNotFound {
		return container.Image{}, contract.Errorf(contract.ImageUnavailable, "the engine does not have the image").WithCause(err)
	}
	if err != nil {
		return container.Image{}, k.fail("look for the image", err)
	}
	return imageOf(found)
}

// imageOf takes from an image what realm uses of it. Of an image for another
// machine the engine might choose another runtime.
func imageOf(found *entities.ImageInspectReport) (container.Image, error) {
	if found.ImageData == nil || found.ID == "" {
		return container.Image{}, contract.Errorf(contract.PodmanUnavailable, "the engine does not tell what the image is")
	}
	if found.Os != "linux" || found.Architecture != runtime.GOARCH {
		return container.Image{}, contract.Errorf(contract.ImageUnavailable, "the image is for another operating system or processor")
	}
	image := container.Image{ID: found.ID, Digest: found.Digest.String()}
	if found.Config != nil {
		image.Env = wellFormed(found.Config.Env)
	}
	return image, nil
}

// wellFormed leaves out entries without a name or a value. Engines take some of
// those as a request for a variable of their own.
func wellFormed(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		if ok && name != "" && !strings.ContainsAny(e, "\x00") && !strings.ContainsAny(name, "* \t\n") {
			out = append(out, e)
		}
	}
	return out
}

// pulled is one line of the engine's answer to a pull.
type pulled struct {
	ID       string          `json:"id"`
	Status   string          `json:"status"`
	Error    json.RawMessage `json:"errorDetail"`
	Progress struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
}

// pull asks for the image in the Docker-compatible dialect: only that tells how
// many bytes of each layer have come.
func (e *Engine) pull(ctx context.Context, named reference.Named, progress func(container.Progress)) error {
	query := url.Values{"fromImage": {named.String()}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://d/v1.41/images/create?"+query.Encode(), nil)
	if err != nil {
		return contract.AsError(err)
	}
	resp, err := e.conn.client.Do(req)
	if err != nil {
		return contract.Errorf(contract.PodmanUnavailable, "the engine did not answer when asked to pull the image").WithCause(err)
	}
	defer resp.Body.Close()
	unavailable := func(err error) error {
		return contract.Errorf(contract.ImageUnavailable, "the engine could not pull the image").WithCause(err).
			WithHint("check the reference and, for a private registry, podman login")
	}
	lines := json.NewDecoder(resp.Body)
	for {
		var line pulled
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF) && resp.StatusCode == http.StatusOK:
			return nil
		case err != nil:
			return unavailable(err)
		case len(line.Error) > 0 || resp.StatusCode != http.StatusOK:
			return unavailable(errors.New(string(line.Error)))
		}
		if progress != nil {
			progress(container.Progress{Layer: line.ID, Message: line.Status, Done: line.Progress.Current, Total: line.Progress.Total})
		}
	}
}
