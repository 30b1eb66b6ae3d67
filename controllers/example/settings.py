"""What can be set for the operators of this group."""

from __future__ import annotations

from manager.setting import Setting, parse_text

__all__ = ["MYSQL_IMAGE", "WORDPRESS_IMAGE"]

MYSQL_IMAGE = Setting(
    "mysql-image",
    parse_text,
    default="mysql:8.4.10",
    description="image of the database of a Wordpress whose spec names none",
    placeholder="IMAGE",
)
WORDPRESS_IMAGE = Setting(
    "wordpress-image",
    parse_text,
    default="wordpress:6.8.3-apache",
    description="image of the site of a Wordpress whose spec names none",
    placeholder="IMAGE",
)
