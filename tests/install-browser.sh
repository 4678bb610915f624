#!/bin/sh
# The browser tests drive Debian's Chromium. As root it is installed here; otherwise this says how.
set -eu
if command -v chromium >/dev/null 2>&1; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium fonts-dejavu-core >/dev/null
else
  echo "Chromium is not installed, so the browser tests will skip: apt-get install chromium" >&2
fi
