"""The full-screen program. Its packages; each imports only packages that come before it in this list:

* ``keys``, ``reading``, ``terminal``: keys, data and the terminal, for any screen;
* ``views``, ``columns``, ``settings``: what tables show, and what the user chose;
* ``screens``: the base classes of all screens;
* ``problems``, ``past``, ``graphs``, ``tables``, ``saving``: the parts of the main screen;
* ``main``, ``main_keys``: the main screen, and what its keys do;
* ``pages``: the base classes of the pages that cover the main screen, and the help;
* ``commands``: the page with commands for a row or a problem;
* ``chain``, ``device``, ``pair``, ``row``: the pages about a problem, a device, two rows, and one row.

The modules directly in this folder connect the packages.
"""
