"""Where requests come from."""

from __future__ import annotations

from manager.controller.source.channel import ChannelSource
from manager.controller.source.kind import KindSource
from manager.controller.source.protocol import Source
from manager.controller.source.ticker import TickerSource

__all__ = ["ChannelSource", "KindSource", "Source", "TickerSource"]
