package workspace

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// globalConfigs are the configuration files of the host that every repository reads.
func (s *gitScan) globalConfigs() []string {
	out := []string{"/etc/gitconfig"}
	if home := s.t.opts.Home; home != "" {
		out = append(out, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"))
	}
	return out
}

// config looks through a configuration file that git reads when it runs in base.
func (s *gitScan) config(name, base string, depth int) error {
	if depth > maxConfigDepth {
		return nil // git ends there with an error
	}
	real, err := s.follow(name, ruleGitConfig, placeholder{})
	if err != nil || real == "" || s.seen[base+"\x00"+real] {
		return err
	}
	s.seen[base+"\x00"+real] = true
	if s.configs++; s.configs > maxGitConfigs {
		s.note("there are more configuration files than realm looks at")
		return nil
	}
	data, err := readAbsolute(real)
	if err != nil {
		s.note("a configuration file could not be read")
		return nil
	}
	vars, err := parseConfig(bytes.TrimPrefix([]byte(data), []byte("\ufeff")))
	if err != nil {
		s.note("a configuration file is not one that realm understands: what it names in the workspace is not protected")
		return nil
	}
	for _, v := range vars {
		if err := s.variable(v, filepath.Dir(name), base, depth); err != nil {
			return err
		}
	}
	return nil
}

// variable covers what one setting leads to.
func (s *gitScan) variable(v configVar, dir, base string, depth int) error {
	var err error
	switch v.name() {
	case "include.path", "includeif.path":
		if name := s.expand(v.value, dir); name != "" {
			err = s.config(name, base, depth+1)
		}
	case "core.hookspath", "init.templatedir":
		if name := s.expand(v.value, base); name != "" {
			var real string
			if real, err = s.follow(name, ruleGitConfig, placeholder{isDir: true}); err == nil && real != "" {
				err = s.scripts(real, []string{base})
			}
		}
	case "core.attributesfile":
		if name := s.expand(v.value, base); name != "" {
			_, err = s.follow(name, ruleGitConfig, placeholder{})
		}
	default:
		err = s.command(v, base)
	}
	return err
}

// expand makes a path of a configuration absolute, as git does.
func (s *gitScan) expand(value, base string) string {
	value = strings.TrimPrefix(value, ":(optional)")
	home, inHome := strings.CutPrefix(value, "~/")
	switch {
	case value == "", strings.ContainsRune(value, 0), strings.HasPrefix(value, "%(prefix)/"):
		return ""
	case inHome && s.t.opts.Home != "":
		return filepath.Join(s.t.opts.Home, home)
	case strings.HasPrefix(value, "~"):
		s.note("the configuration names a path in a home directory that realm does not follow")
		return ""
	}
	return absolute(base, value)
}

// commands are the settings that hold a command, without their subsections.
// Other settings are looked at too, but only what exists is covered for them.
var commands = map[string]bool{
	"core.fsmonitor": true, "core.sshcommand": true, "core.pager": true, "core.editor": true, "core.askpass": true,
	"core.gitproxy": true, "core.alternaterefscommand": true, "sequence.editor": true, "interactive.difffilter": true,
	"diff.external": true, "diff.command": true, "diff.textconv": true, "merge.driver": true,
	"filter.clean": true, "filter.smudge": true, "filter.process": true, "credential.helper": true,
	"gpg.program": true, "gpg.defaultkeycommand": true, "uploadpack.packobjectshook": true,
	"remote.uploadpack": true, "remote.receivepack": true, "trailer.command": true, "trailer.cmd": true,
	"difftool.cmd": true, "difftool.path": true, "mergetool.cmd": true, "mergetool.path": true, "guitool.cmd": true,
	"man.cmd": true, "man.path": true, "browser.cmd": true, "browser.path": true, "tar.command": true, "hook.command": true,
}

// plainData are settings whose paths git only reads as text.
var plainData = map[string]bool{
	"core.excludesfile": true, "commit.template": true, "blame.ignorerevsfile": true, "mailmap.file": true,
	"branch.remote": true, "branch.merge": true, "remote.url": true, "remote.pushurl": true, "remote.fetch": true, "remote.push": true,
	"user.name": true, "user.email": true, "user.signingkey": true, "url.insteadof": true, "url.pushinsteadof": true,
}

// command covers the files in the workspace that a command of the configuration
// names, and keeps a missing program from being made.
func (s *gitScan) command(v configVar, base string) error {
	if !v.set || plainData[v.name()] {
		return nil
	}
	runs := commands[v.name()] || v.section == "pager" || strings.HasPrefix(v.value, "!")
	built := strings.ContainsAny(v.value, "$`")
	if runs && built {
		s.note("a command of the configuration is put together by a shell: not everything that it runs in the workspace is protected (" + v.section + ")")
	}
	return s.commandLine(v.value, base, runs && !built)
}

// commandLine covers the files that a command line names, from the directory in
// which it begins and from those that it changes to. keep says that a missing
// program is kept from being made; else only what exists is covered.
func (s *gitScan) commandLine(line, base string, keep bool) error {
	list := words(line)
	bases := []string{base}
	for i, word := range list[:max(0, len(list)-1)] {
		if dir := s.word(list[i+1], base); word == "cd" && dir != "" {
			bases = append(bases, dir)
		}
	}
	for _, from := range bases {
		for i, word := range list {
			// After $(git rev-parse --show-toplevel) comes what looks absolute.
			for _, name := range []string{s.word(word, from), from + "/" + word} {
				if !s.runsAs(word, name, i == 0, keep && from == bases[len(bases)-1]) {
					continue
				}
				if _, err := s.follow(name, ruleGitConfig, placeholder{isDir: true}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// runsAs reports whether a word of a command may be a program or script of that
// absolute name.
func (s *gitScan) runsAs(word, name string, first, keep bool) bool {
	slash := strings.Contains(word, "/")
	if name == "" || !slash && (first || !keep) {
		return false
	}
	fi, err := os.Stat(name)
	switch {
	case err == nil && fi.Mode().IsRegular():
		return true
	case !keep || !slash || filepath.IsAbs(word) && !contains(s.t.root, name):
		return false
	case filepath.IsAbs(word) && name != filepath.Clean(word):
		return false
	}
	return first || errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(word, "./")
}

// maxScript bounds how much of a hook is looked through.
const maxScript = 64 << 10

// script covers the files in the workspace that a hook names.
func (s *gitScan) script(name string, bases []string) error {
	text, err := readAbsolute(name)
	if err != nil || len(text) > maxScript || strings.ContainsRune(text, 0) || strings.HasSuffix(name, ".sample") {
		return nil
	}
	for _, base := range bases {
		if err := s.commandLine(text, base, false); err != nil {
			return err
		}
	}
	return nil
}

// scripts is script for each file of a directory of hooks.
func (s *gitScan) scripts(dir string, bases []string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, n := range list[:min(len(list), maxFollowed)] {
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, n.Name())); err == nil {
			if err := s.script(real, bases); err != nil {
				return err
			}
		}
	}
	return nil
}

// words are what could be names in a command line.
func words(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`;&|()<>$=!,{}", r) })
}

func (s *gitScan) word(word, base string) string {
	if rest, ok := strings.CutPrefix(word, "~/"); ok && s.t.opts.Home != "" {
		return filepath.Join(s.t.opts.Home, rest)
	}
	if strings.HasPrefix(word, "-") || strings.HasPrefix(word, "~") || word == "." || word == ".." {
		return ""
	}
	return absolute(base, word)
}
